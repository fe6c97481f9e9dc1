"""One streaming query as its site sees it: what it did last, and what is about to start."""

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Batch, Count, Stratum, Upcoming
from penstock.errors import PenstockError
from penstock.spark.engine import Engine
from penstock.spark.gate.codec import GateReport
from penstock.spark.gate.columns import Gate
from penstock.spark.guard_driver import Guard
from penstock.spark.progress import Progress, counts_rows, whole_numbers

log = logging.getLogger("penstock")
COUNT_EVERY_BATCHES = 64
"""An open gate looks at strata in one batch of so many, so that it knows them when it closes. Code
that Spark runs so rarely is slow: such a batch takes tenths of a second longer.
"""
STEADY_SHARE = 0.1
"""Rows for each step of an offset may vary by so much for the offset to tell how much waits."""
LATENCIES_KEPT = 100_000
"""Batches over which latencies are reported."""


class BatchLatency(NamedTuple):
    """What is known of the latency of one batch's tuples."""

    waited: float
    """Seconds for which the oldest tuple waited before the batch began."""
    seconds: float
    """How long the batch took."""
    admitted: int


@dataclass
class SparkQuery:
    """A run of a streaming query behind one or more gates of the site.

    It asks the engine, not Spark's listener: events come some hundred milliseconds after a batch
    has ended, which is after the next one began.
    """

    name: str
    query: StreamingQuery
    gates: list[Gate]
    guards: list[Guard]
    """Those that its tuples go through behind the gates."""
    engine: Engine
    last_batch: int = -1
    """The newest that was told."""
    planned: int = -1
    """The newest that a plan was made for."""
    planned_at: float | None = None
    batches: int = 0
    """How many were planned in this run."""
    counted: bool = True
    """Whether that batch counts its strata even if the gate stands open."""
    latencies: deque[BatchLatency] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    _rows_per_step: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    _mix: dict[str, Mapping[Stratum, Count]] = field(default_factory=dict)
    """For each gate, its strata in the last batch that was counted."""
    _last_start: float | None = None
    _offsets_unknown: bool = False

    @property
    def id(self) -> str:
        """Spark's id, which the checkpoint keeps over restarts."""
        return str(self.query.id)

    @property
    def run(self) -> str:
        """Spark's id of this start of the query."""
        return str(self.query.runId)

    @property
    def runs(self) -> bool:
        return self.query.isActive

    # --- what finished ------------------------------------------------------------------------

    def unread(self) -> Progress | None:
        """The report of the last batch, if ``take`` has not taken it yet."""
        told = self.engine.last_progress(self.query)
        if told is None or told[0] <= self.last_batch:
            return None
        progress = Progress.of(told[1]())
        if not all(gate.name in progress.observed for gate in self.gates):
            return None  # an idle report: no batch ran
        return progress

    def take(self, progress: Progress, alone: bool) -> Batch:
        """The batch for the controller; its report is not unread any more.

        Where the query is not alone on its site, others use the processors while its tuples pass:
        then its own work is counted instead of the time that it takes them.
        """
        reports = [self._report(gate, progress) for gate in self.gates]
        counts = [self._told_apart(*pair) for pair in zip(self.gates, reports, strict=True)]
        self._learn_offsets(progress)
        worked = self.engine.task_seconds(self.run)  # also where it is alone: no time is left over
        waited = 0.0 if self._last_start is None else progress.started - self._last_start
        batch = Batch(
            stream=self.name,
            number=progress.batch,
            started=progress.started,
            seconds=progress.seconds,
            counts=counts[0] if len(counts) == 1 else _merged(counts),
            work=None if alone else worked,
            overhead=progress.overhead,
            # of several streams, nobody knows how they share a query's time
            span=reports[0].span if alone and len(reports) == 1 else None,
            clocks=self._clocks(reports),
            values={s: v for report in reports for s, v in report.values.items()},
            rates={s: r for report in reports for s, r in report.rates.items()},
        )
        self.latencies.append(BatchLatency(waited, progress.seconds, batch.admitted))
        self._last_start = progress.started
        self.last_batch = progress.batch
        return batch

    def _report(self, gate: Gate, progress: Progress) -> GateReport:
        """What the gate did; where its counts cannot be read, at least how much in all."""
        metrics = progress.observed[gate.name]
        try:
            return gate.codec.decode(metrics)
        except Exception:
            log.exception(
                "the counts of batch %d of %s cannot be read; its tuples are not told apart",
                progress.batch,
                self.name,
            )
            all_of_it = Count(int(metrics["arrived"]), int(metrics["admitted"]))
            return GateReport(*all_of_it, {gate.keys.others: all_of_it})

    def _told_apart(self, gate: Gate, report: GateReport) -> Mapping[Stratum, Count]:
        """Exact totals; where an open gate did not look at strata, shared out as they were."""
        if gate.concept is not None:
            return report.counts
        rest = report.counts.get(gate.keys.others)
        if rest is None:
            if report.counts:
                self._mix[gate.name] = report.counts
            return report.counts
        counts = {s: count for s, count in report.counts.items() if s != gate.keys.others}
        if counts:
            self._mix[gate.name] = dict(counts)
        mix = self._mix.get(gate.name) or {gate.keys.others: Count(1, 1)}
        for stratum, share in _shared_out(rest, mix):
            have = counts.get(stratum, Count(0, 0))
            counts[stratum] = Count(have.arrived + share.arrived, have.admitted + share.admitted)
        return counts

    def _clocks(self, reports: list[GateReport]) -> dict[str, float]:
        """Of two gates of a query, the one that is behind tells the time."""
        clocks: dict[str, float] = {}
        for gate, report in zip(self.gates, reports, strict=True):
            if report.event_time is not None:
                query = gate.keys.others.query
                clocks[query] = min(report.event_time, clocks.get(query, report.event_time))
        return clocks

    # --- what starts --------------------------------------------------------------------------

    def upcoming(self, batch: int, interval: float) -> Upcoming | None:
        """The batch that is about to run; None if another gate of the query has asked before."""
        if batch == self.planned:
            return None
        now = time.time()
        waited = interval if self.planned_at is None else now - self.planned_at
        self.planned, self.planned_at = batch, now
        self.counted = not self._mix or _looks(self.batches)
        self.batches += 1
        return Upcoming(self.name, waited, self._waiting())

    def _waiting(self) -> int | None:
        """How many rows the batch has, by the sources' offsets, where these can tell.

        They count rows, or have moved in step with them of late.
        """
        if self._offsets_unknown:
            return None
        try:
            before, after = self.engine.offsets(self.query)
        except PenstockError as error:
            log.warning("%s: bursts are seen a batch late: %s", self.name, error)
            self._offsets_unknown = True
            return None
        if not before:
            return None  # the very first batch
        steps = sum(map(whole_numbers, after)) - sum(map(whole_numbers, before))
        if all(map(counts_rows, after)):
            return steps
        ratios = self._rows_per_step
        if len(ratios) < 2 or max(ratios) > (1 + STEADY_SHARE) * min(ratios):
            return None
        return round(steps * ratios[-1])

    def _learn_offsets(self, progress: Progress) -> None:
        before, after = progress.offsets
        if after > before and before > 0 and progress.rows:
            self._rows_per_step.append(progress.rows / (after - before))


def _looks(batch: int) -> bool:
    """Often while a query is young (in its batches 1, 2, 4, 8 and so on), rarely later."""
    return batch % COUNT_EVERY_BATCHES == 0 or batch & (batch - 1) == 0


def _merged(told: Iterable[Mapping[Stratum, Count]]) -> dict[Stratum, Count]:
    return {stratum: count for counts in told for stratum, count in counts.items()}


def _shared_out(rest: Count, mix: Mapping[Stratum, Count]) -> Iterable[tuple[Stratum, Count]]:
    """Whole tuples, in the proportions of ``mix``, with nothing lost to rounding."""
    parts = {stratum: count.arrived for stratum, count in mix.items() if count.arrived}
    total = sum(parts.values())
    arrived = admitted = passed = 0
    for stratum, part in parts.items():
        passed += part
        up_to = Count(rest.arrived * passed // total, rest.admitted * passed // total)
        yield stratum, Count(up_to.arrived - arrived, up_to.admitted - admitted)
        arrived, admitted = up_to
