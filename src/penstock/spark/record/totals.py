"""Adds up what every query did since its site began."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.fairness import jain
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Batch
from penstock.spark.query import SparkQuery
from penstock.spark.record.ledger import Ledger
from penstock.spark.site_report import CapacityReport, LatencyReport, QueryReport, SiteReport
from penstock.spark.watching import Watching


@dataclass
class QueryTotals:
    """Counts the tuples of one query; ``stream`` is the Spark query that it runs in."""

    stream: str
    arrived: int = 0
    admitted: int = 0
    lost_in_guards: int = 0
    batches: int = 0


@dataclass
class Totals:
    """Adds up batches and samples of SIC, and makes the report of them."""

    queries: dict[str, QueryTotals] = field(default_factory=dict)
    _sic: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, gated: Batch, guarded: Batch) -> None:
        """Adds one batch, as its gates admitted it and without what guards lost of that."""
        lost = {} if guarded is gated else _by_query(guarded)
        for query, (arrived, admitted) in _by_query(gated).items():
            if arrived:
                totals = self.queries.setdefault(query, QueryTotals(gated.stream))
                totals.arrived += arrived
                totals.admitted += admitted
                totals.lost_in_guards += admitted - lost.get(query, (0, admitted))[1]
                totals.batches += 1

    def sample(self, sic: Mapping[str, float]) -> None:
        """Adds a sample of each query's SIC."""
        for query, value in sic.items():
            total, times = self._sic.get(query, (0.0, 0))
            self._sic[query] = (total + value, times + 1)

    def mean_sic(self, query: str) -> float:
        """Returns the mean of a query's samples of SIC."""
        total, times = self._sic.get(query, (1.0, 1))
        return total / times

    def report(
        self,
        streams: Mapping[str, SparkQuery],
        ledger: Ledger,
        settings: Settings,
        state: State,
        guards: Iterable[dict[str, Any]],
        watching: Watching | None = None,
    ) -> SiteReport:
        """Makes the report of the site."""
        latency = {name: LatencyReport.of(s.latencies) for name, s in streams.items()}
        return SiteReport(
            queries=tuple(
                QueryReport(
                    id=query,
                    arrived=totals.arrived,
                    admitted=totals.admitted,
                    shed=totals.arrived - totals.admitted,
                    lost_in_guards=totals.lost_in_guards,
                    sic=self.mean_sic(query),
                    latency_ms=latency.get(totals.stream, LatencyReport()),
                    batches=totals.batches,
                    **_waiting(streams.get(totals.stream)),
                    **({} if watching is None else _would(watching, query, totals.stream)),
                )
                for query, totals in sorted(self.queries.items())
            ),
            site=CapacityReport(
                capacity=sum(_capacity(name, settings, state) for name in streams),
                utilisation=_utilisation(streams.values()),
                jain=jain([self.mean_sic(query) for query in self.queries]),
            ),
            guards=tuple(guards),
            ledger_balanced=ledger.balanced,
            watch=watching is not None,
        )


def _waiting(stream: SparkQuery | None) -> dict[str, Any]:
    """Returns what waits at the sources of a query, and what holds it back."""
    if stream is None:
        return {}
    waiting, held = stream.lag.tuples, stream.held_back
    return {
        "backlog": None if waiting is None else round(waiting),
        "held_back_by": held.by,
        "let_in_per_second": held.let_in,
        "arriving_per_second": held.arriving,
    }


def _would(watching: Watching, query: str, stream: str) -> dict[str, Any]:
    """Returns what a query's report has of a site that only watches."""
    latency = LatencyReport.of(watching.would_latencies.get(stream, ()))
    return {
        "would_shed": round(watching.would_shed.get(query, 0.0)),
        "would_latency_ms": latency.p95,
    }


def _by_query(batch: Batch) -> dict[str, tuple[int, int]]:
    """Returns how many tuples of each query arrived in a batch, and how many were admitted."""
    queries = {stratum.query for stratum in batch.counts}
    if len(queries) == 1:  # as a rule, and there may be thousands of strata
        return {queries.pop(): (batch.arrived, batch.admitted)}
    totals: dict[str, tuple[int, int]] = {}
    for stratum, count in batch.counts.items():
        arrived, admitted = totals.get(stratum.query, (0, 0))
        totals[stratum.query] = arrived + count.arrived, admitted + count.admitted
    return totals


def _capacity(name: str, settings: Settings, state: State) -> float:
    """Returns the tuples a second that a query could admit now, if it had the site to itself."""
    stream = state.streams.get(name)
    if stream is None or stream.clock.admitting <= 0:
        return 0.0
    period = max(settings.interval_of(name), settings.budget_of(name))
    planned = settings.budget_of(name) * settings.headroom
    spare = planned - stream.clock.seconds(stream.rate * period, 0.0)
    return max(spare, 0.0) / stream.clock.admitting / period


def _utilisation(streams: Iterable[SparkQuery]) -> float:
    """Returns the share of the time in which a batch was running, of the busiest query."""
    shares = [0.0]
    for stream in streams:
        took = sum(batch.seconds for batch in stream.latencies)
        passed = sum(max(batch.waited, batch.seconds) for batch in stream.latencies)
        if passed:
            shares.append(min(took / passed, 1.0))
    return max(shares)
