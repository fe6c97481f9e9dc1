"""Adds up what every query did since its site began."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.fairness import jain
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Batch
from penstock.spark.losses import Lost
from penstock.spark.query import SparkQuery
from penstock.spark.record.ledger import Ledger
from penstock.spark.site_report import CapacityReport, LatencyReport, QueryReport, SiteReport
from penstock.spark.watching import Watching


@dataclass
class QueryTotals:
    """Counts the tuples of one query."""

    streams: set[str] = field(default_factory=set)
    """The Spark queries that are its results; as a rule one."""
    arrived: int = 0
    admitted: int = 0
    lost: Lost = field(default_factory=Lost)
    batches: int = 0


@dataclass
class MeanSic:
    """Adds up samples of each query's SIC."""

    _sums: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, sic: Mapping[str, float]) -> None:
        """Adds a sample of each query."""
        for query, value in sic.items():
            total, times = self._sums.get(query, (0.0, 0))
            self._sums[query] = (total + value, times + 1)

    def of(self, query: str) -> float:
        """Returns the mean of a query's samples."""
        total, times = self._sums.get(query, (1.0, 1))
        return total / times


@dataclass
class Totals:
    """Adds up batches and samples of SIC, and makes the report of them."""

    queries: dict[str, QueryTotals] = field(default_factory=dict)
    _sic: MeanSic = field(default_factory=MeanSic)
    _gate_sic: MeanSic = field(default_factory=MeanSic)

    def add(self, gated: Batch, lost: Lost) -> None:
        """Adds one batch, as its gates admitted it, and what was lost behind them.

        Where several queries share a Spark query, each bears its part.
        """
        for query, (arrived, admitted) in _by_query(gated).items():
            if arrived:
                totals = self.queries.setdefault(query, QueryTotals())
                totals.streams.add(gated.stream)
                totals.arrived += arrived
                totals.admitted += admitted
                part = admitted / gated.admitted if gated.admitted else 0.0
                totals.lost = Lost(*(a + b * part for a, b in zip(totals.lost, lost, strict=True)))
                totals.batches += 1

    def sample(self, at_results: Mapping[str, float], at_gates: Mapping[str, float]) -> None:
        """Adds a sample of each query's SIC."""
        self._sic.add(at_results)
        self._gate_sic.add(at_gates)

    def report(
        self,
        streams: Mapping[str, SparkQuery],
        ledger: Ledger,
        settings: Settings,
        state: State,
        guards: Iterable[dict[str, Any]],
        sic_now: Mapping[str, float],
        watching: Watching | None = None,
    ) -> SiteReport:
        """Makes the report of the site."""
        return SiteReport(
            queries=tuple(
                QueryReport(
                    id=query,
                    arrived=totals.arrived,
                    admitted=totals.admitted,
                    shed=totals.arrived - totals.admitted,
                    lost_in_guards=round(totals.lost.guards),
                    lost_late=round(totals.lost.late),
                    lost_in_windows=round(totals.lost.windows),
                    sic=self._sic.of(query),
                    sic_now=sic_now.get(query),
                    gate_sic=self._gate_sic.of(query),
                    latency_ms=LatencyReport.of(
                        [
                            batch
                            for name in _known(totals, streams)
                            for batch in streams[name].latencies
                        ]
                    ),
                    batches=totals.batches,
                    drift=state.windows.drift_of(query) if state.windows else None,
                    **_waiting([streams[name] for name in _known(totals, streams)]),
                    **({} if watching is None else _would(watching, query, totals.streams)),
                )
                for query, totals in sorted(self.queries.items())
            ),
            site=CapacityReport(
                capacity=sum(_capacity(name, settings, state) for name in streams),
                utilisation=_utilisation(streams.values()),
                jain=jain([self._sic.of(query) for query in self.queries]),
            ),
            guards=tuple(guards),
            ledger_balanced=ledger.balanced,
            watch=watching is not None,
        )


def _known(totals: QueryTotals, streams: Mapping[str, SparkQuery]) -> list[str]:
    return sorted(totals.streams & streams.keys())


def _waiting(streams: Sequence[SparkQuery]) -> dict[str, Any]:
    """Returns what waits at the sources of a query's results, and what holds one of them back."""
    if not streams:
        return {}
    waiting = [stream.lag.tuples for stream in streams if stream.lag.tuples is not None]
    held = next((s.held_back for s in streams if s.held_back.by), streams[0].held_back)
    return {
        "backlog": round(sum(waiting)) if waiting else None,
        "held_back_by": held.by,
        "let_in_per_second": held.let_in,
        "arriving_per_second": held.arriving,
    }


def _would(watching: Watching, query: str, streams: Iterable[str]) -> dict[str, Any]:
    """Returns what a query's report has of a site that only watches."""
    latency = LatencyReport.of(
        [batch for name in streams for batch in watching.would_latencies.get(name, ())]
    )
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
