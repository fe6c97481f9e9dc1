"""What tests of the federation share: a site in memory, served for real on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from penstock.federation.access import USUAL_CALLER_LIMIT, Access, RateLimit
from penstock.federation.autonomy import refuse_order
from penstock.federation.client import SiteClient
from penstock.federation.ids import fragment_id
from penstock.federation.inside_messages import (
    LatencyAnswer,
    LatencyChange,
    SiteInside,
    TermsAnswer,
    TermsChange,
)
from penstock.federation.known_splits import KnownSplits
from penstock.federation.messages import (
    FragmentAnswer,
    FragmentOrder,
    FragmentStatus,
    LentSource,
    SicUpdate,
    SiteStatistics,
)
from penstock.federation.query_file import FederatedQuery
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.serving import ServedApp
from penstock.federation.site_file import SiteFile
from penstock.federation.site_server import site_app

TOKEN = "the-token-of-rome-0123456789"
LIMITLESS = RateLimit(1e9, 1e9)


@dataclass
class SiteInMemory:
    """Remembers the fragments that it was asked to run, and runs none."""

    name: str = "rome"
    refuses: frozenset[str] = frozenset()
    """The submitters from whom it takes nothing."""
    deploying_takes: Callable[[], object] = lambda: None
    utilisation: float = 0.0
    latency: float = 4.0
    orders: dict[str, FragmentOrder] = field(default_factory=dict)
    news: list[SicUpdate] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """What was asked for, in order."""
    _lock: Lock = field(default_factory=Lock)

    def deploy(self, order: FragmentOrder, caller: str) -> FragmentAnswer:
        self.deploying_takes()
        name = fragment_id(order.fragment, order.query.query, order.replica)
        if order.submitter in self.refuses:
            raise RefusedError(Reason.FORBIDDEN, f"takes nothing from {order.submitter!r}")
        with self._lock:
            runs = self.orders.get(name)
            if runs and (runs.query != order.query or runs.incarnation > order.incarnation):
                raise RefusedError(Reason.CONFLICT, f"{name!r} runs already, and is another")
            self.orders[name] = order
            self.callers.append(caller)
            self.told.append(f"deploy {name}")
        return FragmentAnswer(id=name, columns=f"{order.fragment}_rows BIGINT")

    def remove(self, fragment_id: str, caller: str) -> None:
        with self._lock:
            self.callers.append(caller)
            self.told.append(f"remove {fragment_id}")
            if self.orders.pop(fragment_id, None) is None:
                raise RefusedError(Reason.UNKNOWN_FRAGMENT, f"does not run {fragment_id!r}")

    def fragments(self) -> list[FragmentStatus]:
        with self._lock:
            return [
                FragmentStatus(
                    id=name,
                    query=order.query.query,
                    fragment=order.fragment,
                    incarnation=order.incarnation,
                )
                for name, order in self.orders.items()
            ]

    def statistics(self) -> SiteStatistics:
        return SiteStatistics(
            fragments_running=len(self.orders), capacity=1000.0, utilisation=self.utilisation
        )

    def update_sic(self, update: SicUpdate, caller: str) -> None:
        with self._lock:
            if update.query not in {order.query.query for order in self.orders.values()}:
                raise RefusedError(Reason.UNKNOWN_QUERY, f"runs nothing of {update.query!r}")
            self.news.append(update)
            self.callers.append(caller)

    def inside(self) -> SiteInside:
        return SiteInside(policy="balance-sic", plan=7, latency_seconds=self.latency, gates=[])

    def set_terms(self, change: TermsChange, caller: str) -> TermsAnswer:
        self.callers.append(caller)
        if change.query not in {order.query.query for order in self.orders.values()}:
            raise RefusedError(Reason.UNKNOWN_QUERY, f"runs nothing of {change.query!r}")
        return TermsAnswer(query=change.query, weight=change.weight or 1, floor=change.floor or 0)

    def set_latency(self, change: LatencyChange, caller: str) -> LatencyAnswer:
        self.callers.append(caller)
        self.latency = change.seconds
        return LatencyAnswer(seconds=change.seconds)

    def report(self) -> dict[str, Any]:
        return {"site": self.name}


@dataclass
class ConfinedSite(SiteInMemory):
    """Refuses what a real site refuses, which lends one source and runs nothing."""

    file: SiteFile = field(
        default_factory=lambda: SiteFile.model_validate({"site": "rome", "directory": "x"})
    )
    lent: Mapping[str, LentSource] = field(default_factory=dict)
    splits: KnownSplits = field(default_factory=KnownSplits)

    def deploy(self, order: FragmentOrder, caller: str) -> FragmentAnswer:
        running = list(self.orders.values())
        refuse_order(self.file, self.lent, running, self.splits, order, caller)
        return super().deploy(order, caller)


@contextmanager
def served(
    control: SiteInMemory,
    accepts: Mapping[str, str] | None = None,
    limit: RateLimit = USUAL_CALLER_LIMIT,
) -> Iterator[ServedApp]:
    """Serves a site on a free port of this machine."""
    access = Access(accepts or {}, "127.0.0.1", caller_limit=limit, stranger_limit=limit)
    with ServedApp(site_app(control, access), access.refusals) as server:
        yield server


@contextmanager
def calling(server: ServedApp, token: str | None = None) -> Iterator[SiteClient]:
    client = SiteClient(server.address, token)
    try:
        yield client
    finally:
        client.close()


def eventually(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until something holds; fails if it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.01)


def a_query(name: str = "load") -> FederatedQuery:
    return FederatedQuery(query=name, sql="SELECT avg(cpu) AS cpu FROM rome.machines")


def an_order(query: str = "load", fragment: str = "root", **more: Any) -> FragmentOrder:
    return FragmentOrder(query=a_query(query), fragment=fragment, places={}, catalog={}, **more)
