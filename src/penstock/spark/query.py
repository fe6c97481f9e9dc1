"""One streaming query as the site sees it: what it did last, and what is about to start."""

import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Batch, Count, Stratum, Upcoming
from penstock.spark.gate.columns import REST, Gate
from penstock.spark.guard import Guard
from penstock.spark.progress import Progress, counts_rows, whole_numbers

COUNT_EVERY = 64
"""An open gate looks at strata in one batch of so many, so that it knows them when it closes. Code
that Spark runs so rarely is slow: such a batch takes tenths of a second longer.
"""
STEADY = 0.1
"""Rows for each step of an offset may vary by so much for the offset to tell how much waits."""


Latency = tuple[float, float, int]
"""How long a batch's oldest tuple waited, how long the batch took, how many it admitted."""


@dataclass
class SparkJob:
    """Reads a query's progress and its offsets straight from the engine.

    The listener's events come some hundred milliseconds after a batch has ended, which is after
    the next one began. The engine itself knows at once.
    """

    name: str
    gates: list[Gate]
    guards: list[Guard]
    """Those that its tuples go through behind the gates."""
    query: StreamingQuery | None = None
    started: threading.Event = field(default_factory=threading.Event)
    """Set when ``query`` is known; Spark may plan a first batch before."""
    last_batch: int = -1
    planned: int = -1
    """The batch that was planned last."""
    planned_at: float | None = None
    batches: int = 0
    """How many were planned since it was started."""
    counted: bool = True
    """Whether that batch counts its strata even if the gate stands open."""
    ratio: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    latencies: deque[Latency] = field(default_factory=lambda: deque(maxlen=100_000))
    mix: dict[str, Mapping[Stratum, Count]] = field(default_factory=dict)
    """For each gate, its strata in the last batch that was counted."""
    last_job: int = -1
    """The newest of Spark's jobs whose work was counted."""
    last_start: float | None = None

    @property
    def runs(self) -> bool:
        """Or is about to."""
        return self.query is None or self.query.isActive

    @property
    def _engine(self) -> Any:
        assert self.query is not None
        wrapped: Any = self.query
        return wrapped._jsq.streamingQuery()

    def finished(self, alone: bool) -> tuple[Progress, Batch] | None:
        """The last batch, if it has not been told before.

        Where the job is not alone on its site, others use the processors while its tuples pass:
        then its own work is counted instead of the time that it takes them.
        """
        if self.query is None:
            return None
        told = self._engine.lastProgress()
        if told is None or told.batchId() <= self.last_batch:
            return None
        progress = Progress.of(told.json())
        if not all(gate.name in progress.observed for gate in self.gates):
            return None  # an idle report: no batch ran
        waited = self._waited(progress)
        self.last_batch = progress.batch
        self._learn_offsets(progress)
        told_by = [self._counts(gate, progress.observed[gate.name]) for gate in self.gates]
        batch = Batch(
            stream=self.name,
            number=progress.batch,
            started=progress.started,
            seconds=progress.seconds,
            counts=told_by[0] if len(told_by) == 1 else _merged(told_by),
            work=None if alone else self._work(),
            overhead=progress.overhead,
            span=self._span(progress) if alone else None,
            clocks=self._clocks(progress),
            values=self._values(progress),
            rates={s: r for g in self.gates for s, r in g.rates(progress.observed[g.name]).items()},
        )
        self.latencies.append((waited, progress.seconds, batch.admitted))
        return progress, batch

    def _span(self, progress: Progress) -> float | None:
        """Of a query with one gate: how streams share a query's time nobody knows."""
        if len(self.gates) != 1:
            return None
        return self.gates[0].span(progress.observed[self.gates[0].name])

    def _clocks(self, progress: Progress) -> dict[str, float]:
        """Of two gates of a query, the one that is behind tells the time."""
        clocks: dict[str, float] = {}
        for gate in self.gates:
            clock, query = gate.clock(progress.observed[gate.name]), gate.keys.rest.query
            if clock is not None:
                clocks[query] = min(clock, clocks.get(query, clock))
        return clocks

    def _values(self, progress: Progress) -> dict[Stratum, list[float]]:
        values: dict[Stratum, list[float]] = {}
        for gate in self.gates:
            values.update(gate.values(progress.observed[gate.name]))
        return values

    def _waited(self, progress: Progress) -> float:
        before, self.last_start = self.last_start, progress.started
        return 0.0 if before is None else progress.started - before

    def _counts(self, gate: Gate, metrics: dict[str, Any]) -> Mapping[Stratum, Count]:
        """Exact totals; where an open gate did not look at strata, shared out as they were."""
        tally = gate.tally(metrics)
        if tally is not None:
            self.mix[gate.name] = tally
            return tally
        counts = gate.counts(metrics)
        rest = counts.pop(REST, None)
        if counts:
            self.mix[gate.name] = dict(counts)
        if rest is not None:
            mix = self.mix.get(gate.name) or {gate.keys.rest: Count(1, 1)}
            for stratum, share in _shared_out(rest, mix):
                have = counts.get(stratum, Count(0, 0))
                counts[stratum] = Count(
                    have.arrived + share.arrived, have.admitted + share.admitted
                )
        return counts

    def outlook(self, interval: float) -> Upcoming | None:
        """The batch that is about to run; None if it was asked for before (by another gate)."""
        if self.query is None:  # the first batch was planned before start() had returned
            return Upcoming(self.name, interval)
        engine, now = self._engine, time.time()
        batch = int(engine.getLatestExecutionContext().batchId())
        if batch == self.planned:
            return None
        waited = interval if self.planned_at is None else now - self.planned_at
        self.planned, self.planned_at = batch, now
        self.counted = not self.mix or _looks(self.batches)
        self.batches += 1
        return Upcoming(self.name, waited, self._waiting(engine))

    def _waiting(self, engine: Any) -> int | None:
        """How many rows the batch has, by the sources' offsets, where these can tell.

        They count rows, or have moved in step with them of late.
        """
        before, after = _offsets(engine.committedOffsets()), _offsets(engine.availableOffsets())
        if not before:
            return None  # the very first batch
        steps = sum(map(whole_numbers, after)) - sum(map(whole_numbers, before))
        if all(map(counts_rows, after)):
            return steps
        if len(self.ratio) < 2 or max(self.ratio) > (1 + STEADY) * min(self.ratio):
            return None
        return round(steps * self.ratio[-1])

    def _learn_offsets(self, progress: Progress) -> None:
        before, after = progress.offsets
        if after > before and before > 0 and progress.rows:
            self.ratio.append(progress.rows / (after - before))

    def _work(self) -> float | None:
        """Processor seconds that the tasks of this query used since the last call."""
        assert self.query is not None
        context: Any = SparkSession.active().sparkContext
        spark = context._jsc.sc()
        group = spark.statusTracker().getJobIdsForGroup(str(self.query.runId))
        ids = json.loads(context._jvm.java.util.Arrays.toString(group))
        fresh = [number for number in ids if number > self.last_job]
        if not fresh:
            return None
        self.last_job = max(fresh)
        store, spent = spark.statusStore(), 0
        for job in fresh:
            stages = store.job(job).stageIds()
            for i in range(stages.size()):
                spent += store.lastStageAttempt(stages.apply(i)).executorRunTime()
        return spent / 1000


def _looks(batch: int) -> bool:
    """Often while a query is young (in its batches 1, 2, 4, 8 and so on), rarely later."""
    return batch % COUNT_EVERY == 0 or batch & (batch - 1) == 0


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


def _offsets(progress: Any) -> list[Any]:
    """Each source's offset in Spark's StreamProgress, read as JSON."""
    offsets, iterator = [], progress.iterator()
    while iterator.hasNext():
        try:
            offsets.append(json.loads(iterator.next()._2().json()))
        except ValueError:
            offsets.append(None)
    return offsets
