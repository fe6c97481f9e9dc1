"""The server of the oracle: hears sites, and tells what it knows."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, FastAPI, Query

from penstock.federation.access import LOCAL_CALLER, Access
from penstock.federation.api import body_of, caller_of, make_api, takes
from penstock.federation.checked_app import CheckedApp
from penstock.federation.history import MOST_ROWS_ANSWERED, History
from penstock.federation.inside_messages import LatencyChange, TermsChange
from penstock.federation.messages import Heartbeat, RankingAnswer
from penstock.federation.metrics_page import tell_metrics
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_messages import (
    EventsAnswer,
    FairnessAnswer,
    HistoryAnswer,
    ListedSite,
    QueriesAnswer,
)
from penstock.federation.oracle_relay import add_relay
from penstock.federation.query_file import Name, Ranking
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.sequences import Sequences
from penstock.metrics.told import OracleTold

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

BODY_LIMITS_BYTES = {"/sites": 1_000_000}
SECONDS_BETWEEN_LOOKS = 0.5
"""How often the oracle looks which sites have fallen silent."""

Since = Annotated[float, Query(ge=0, allow_inf_nan=False)]
Most = Annotated[int, Query(ge=1, le=MOST_ROWS_ANSWERED)]


def oracle_app(
    oracle: Oracle,
    history: History,
    access: Access,
    beside: Callable[[FastAPI], None] = lambda _: None,
) -> CheckedApp:
    """Makes the application that an oracle serves; ``beside`` adds to it, such as the page."""

    @asynccontextmanager
    async def looking(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(_look_for_silence(oracle, history))
        yield
        task.cancel()

    bodies = (Heartbeat, TermsChange, LatencyChange)
    app = make_api("Penstock oracle", access, bodies, looking)
    _hear(app, oracle, history)
    tell(app, oracle)
    remember(app, history)
    tell_metrics(app, lambda: _collector(oracle))
    add_relay(app, oracle, time.time)
    beside(app)
    return CheckedApp(app, access, BODY_LIMITS_BYTES)


async def _look_for_silence(oracle: Oracle, history: History) -> None:
    while True:
        now = time.time()
        history.note_events(oracle.find_silent(now), now)
        if history.wants_fairness(now):
            history.note_fairness(oracle.queries(now), now)
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


def _hear(app: FastAPI, oracle: Oracle, history: History) -> None:
    sequences = Sequences()

    @app.post("/sites", openapi_extra=takes(Heartbeat))
    def hear(
        beat: Annotated[Heartbeat, Depends(body_of(Heartbeat))],
        caller: Annotated[str, Depends(caller_of)],
    ) -> dict[str, bool]:
        """Takes a site's heartbeat, which has the figures of the thesis' statistics manager."""
        if caller not in (LOCAL_CALLER, beat.site):
            raise RefusedError(Reason.FORBIDDEN, f"{caller!r} may not speak for {beat.site!r}")
        now = time.time()
        with sequences.next(beat.site, beat.seq, now):
            history.note(beat, oracle.hear(beat, now), now)
        return {"ok": True}


def tell(app: FastAPI, oracle: Oracle) -> None:
    """Adds what an oracle knows now."""

    @app.get("/sites")
    def sites() -> list[ListedSite]:
        """Lists all sites with their last heartbeat, those that are silent too."""
        return oracle.sites(time.time())

    @app.get("/ranking")
    def ranking(by: Ranking = "least-loaded") -> RankingAnswer:
        """Lists the sites that live, the best place for a fragment first."""
        return oracle.ranking(by, time.time())

    @app.get("/queries")
    def queries() -> QueriesAnswer:
        """Lists the queries, the poorest first, with Jain's index and the mean SIC."""
        return oracle.queries(time.time())


def _collector(oracle: Oracle) -> "Collector":
    """Collects what the oracle tells in JSON, too."""
    from penstock.metrics.oracle_collector import OracleCollector

    def ask() -> OracleTold:
        now = time.time()
        sites = [site.model_dump() for site in oracle.sites(now)]
        return OracleTold(sites, oracle.queries(now).model_dump())

    return OracleCollector(ask)


def remember(app: FastAPI, history: History) -> None:
    """Adds what its history knows."""

    @app.get("/history")
    def moments(
        query: Name | None = None,
        site: Name | None = None,
        since: Since = 0.0,
        most: Most = MOST_ROWS_ANSWERED,
    ) -> HistoryAnswer:
        """Tells what sites and queries were like since a time, in seconds since 1970."""
        return history.moments(query, site, since, most)

    @app.get("/fairness")
    def fairness(since: Since = 0.0, most: Most = MOST_ROWS_ANSWERED) -> FairnessAnswer:
        """Tells Jain's index and the mean SIC over time, in seconds since 1970."""
        return FairnessAnswer(moments=history.fairness(since, most))

    @app.get("/events")
    def events(since: Since = 0.0, most: Most = MOST_ROWS_ANSWERED) -> EventsAnswer:
        """Tells what has happened since a time, in seconds since 1970."""
        return EventsAnswer(events=history.events(since, most))
