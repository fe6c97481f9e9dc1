"""Serves the page of one job: a site tells a small oracle of its own what it would tell others."""

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI

from penstock.dashboard.what_is_seen import page_of
from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.api import body_of, caller_of, make_api, takes
from penstock.federation.checked_app import CheckedApp
from penstock.federation.count_spread import counted_by_query
from penstock.federation.history import History, HistoryBounds
from penstock.federation.inside_messages import (
    LatencyAnswer,
    LatencyChange,
    SiteInside,
    TermsChange,
)
from penstock.federation.messages import FragmentStatus, Heartbeat, QueryStatus
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_relay import ChangedTerms
from penstock.federation.oracle_server import remember, tell
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.serving import ServedApp
from penstock.federation.site_changes import give_terms, refuse_without_token
from penstock.federation.site_file import TOKEN_CHARACTERS, is_loopback
from penstock.federation.site_inside import site_inside
from penstock.federation.site_statistics import StatisticsManager
from penstock.metrics.listening import place
from penstock.spark.site import Site
from penstock.spark.site_report import QueryReport, SiteReport

TOKEN_VARIABLE = "PENSTOCK_TOKEN"
OWNER = "owner"
"""The name of whoever has the token."""
IN_MEMORY = Path(":memory:")
SECONDS_BETWEEN_LOOKS = 1.0
HISTORY_BOUNDS = HistoryBounds(most_rows=50_000, longest_age_seconds=3600.0, resolution_seconds=2.0)
MOST_QUERIES = 1000
LONGEST_NAME = 64
"""Of a query on the page; longer names, and signs that no address may have, are shortened."""

log = logging.getLogger("penstock")
Caller = Annotated[str, Depends(caller_of)]


class JobPage:
    """Is the page of a site that runs; ``close`` ends it."""

    def __init__(self, site: Site, name: str, listen: int | str) -> None:
        host, port = place(listen, "dashboard")
        token = os.environ.get(TOKEN_VARIABLE)
        if not token and not is_loopback(host):
            raise PenstockError(
                f"{TOKEN_VARIABLE} must be set to a token where the dashboard can be reached from "
                f"other machines; got dashboard={listen!r} without it"
            )
        if token and len(token) not in TOKEN_CHARACTERS:
            raise PenstockError(
                f"{TOKEN_VARIABLE} must be a token of {TOKEN_CHARACTERS[0]} to "
                f"{TOKEN_CHARACTERS[-1]} characters; got {len(token)}"
            )
        self._site, self._name = site, shown(name)
        self._oracle, self._history = Oracle(), History(IN_MEMORY, HISTORY_BOUNDS)
        self._manager = StatisticsManager(site.settings.stw_seconds)
        self._names: dict[str, str] = {}
        """What queries are called, by what the page calls them."""
        self._number = 0
        access = Access({OWNER: token} if token else {}, host, readers=is_loopback(host))
        live, add = page_of(self._oracle, self._history, {"kind": "job", "name": self._name})
        self._served = ServedApp(
            self._app(access, add), access.refusals, host, port, stopping=live.stop
        )
        self._served.start()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-page", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return self._served.address

    def close(self) -> None:
        """Ends the page; may be called twice."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join()
            self._served.stop()
            self._history.close()

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:  # whoever looks must not harm the job
                log.exception("the page of %s is not up to date", self._name)
            if self._stopped.wait(SECONDS_BETWEEN_LOOKS):
                return

    def look(self) -> None:
        """Notes how the job is now."""
        now, report = time.time(), self._site.report()
        self._manager.sample(now, report)
        beat = self._beat(self._shown(report))
        self._history.note(beat, self._oracle.hear(beat, now), now)
        if self._history.wants_fairness(now):
            self._history.note_fairness(self._oracle.queries(now), now)

    def _shown(self, report: SiteReport) -> SiteReport:
        """Answers the report with each query as the page calls it; of too many, the poorest."""
        poorest = sorted(report.queries, key=lambda query: (query.sic_now is None, query.sic_now))
        queries = poorest[:MOST_QUERIES]
        self._names = {shown(query.id): query.id for query in queries}
        return replace(report, queries=tuple(replace(q, id=shown(q.id)) for q in queries))

    def _beat(self, report: SiteReport) -> Heartbeat:
        self._number += 1
        statistics = self._manager.statistics(report, {}, len(report.queries), 0)
        target = self._site.settings.target_seconds * 1000
        counted = counted_by_query(self._site.state)
        return Heartbeat(
            site=self._name,
            address=self._served.address,
            seq=self._number,
            interval=max(SECONDS_BETWEEN_LOOKS, self._site.settings.interval),
            statistics=statistics.model_copy(update={"latency_target_ms": target}),
            fragments=[_gates_of(query) for query in report.queries],
            queries=[self._status(query) for query in report.queries],
            counted={name: counted[own] for name, own in self._names.items() if own in counted},
        )

    def _status(self, query: QueryReport) -> QueryStatus:
        terms = self._site.settings.terms.get(self._names[query.id])
        late = query.latency_ms
        bounded = terms is not None and terms.ceiling != float("inf")
        return QueryStatus(
            query=query.id,
            sic=_share(query.sic),
            sic_now=None if query.sic_now is None else _share(query.sic_now),
            rows=0,
            latency_ms={"p50": late.p50, "p95": late.p95, "p99": late.p99},
            latency_measured=late.measured,
            fragments=1,
            sites=[self._name],
            weight=1.0 if terms is None else terms.weight,
            floor=0.0 if terms is None else terms.floor,
            ceiling=terms.ceiling if terms is not None and bounded else None,
        )

    def _app(self, access: Access, add: Callable[[FastAPI], None]) -> CheckedApp:
        app = make_api("Penstock job", access, (TermsChange, LatencyChange))
        tell(app, self._oracle)
        remember(app, self._history)
        self._take_changes(app)
        add(app)
        return CheckedApp(app, access)

    def _take_changes(self, app: FastAPI) -> None:
        """Adds what the oracle of a federation would ask its sites."""

        @app.get("/sites/{site}/inside")
        def inside(site: str) -> SiteInside:
            """Answers the gates and guards from inside: strata, the plan in force, and why."""
            self._check(site)
            return site_inside(self._site)

        @app.post("/sites/{site}/latency", openapi_extra=takes(LatencyChange))
        def latency(
            site: str,
            change: Annotated[LatencyChange, Depends(body_of(LatencyChange))],
            caller: Caller,
        ) -> LatencyAnswer:
            """Holds another latency, from the next batch on."""
            self._check(site)
            refuse_without_token(caller)
            self._site.set_latency(change.seconds)
            return LatencyAnswer(seconds=change.seconds)

        @app.post("/terms", openapi_extra=takes(TermsChange))
        def terms(
            change: Annotated[TermsChange, Depends(body_of(TermsChange))], caller: Caller
        ) -> ChangedTerms:
            """Gives a query another weight, floor or ceiling, from its next batch on."""
            refuse_without_token(caller)
            if change.query not in self._names:
                raise RefusedError(Reason.UNKNOWN_QUERY, f"{change.query!r} does not run here")
            own = self._names[change.query]
            return ChangedTerms(changed={self._name: give_terms(self._site, own, change)})

    def _check(self, site: str) -> None:
        if site != self._name:
            raise RefusedError(Reason.UNKNOWN_SITE, f"there is one site here, {self._name!r}")


def shown(name: str) -> str:
    """Answers how the page calls a query, which may be called anything.

    >>> shown("fares"), shown("a b/c")
    ('fares', 'a-b-c')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:LONGEST_NAME].lstrip("_.-")
    return plain or "unnamed"


def _gates_of(query: QueryReport) -> FragmentStatus:
    return FragmentStatus(
        id=query.id,
        query=query.id,
        fragment="gates",
        arrived=query.arrived,
        admitted=query.admitted,
    )


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
