"""One streaming query as its site sees it: what it did last, and what is about to start."""

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Batch, Count, Stratum, Upcoming
from penstock.errors import PenstockError
from penstock.spark.backlog import Backlog, BatchReading, HeldBack, Lag, told_by
from penstock.spark.fan_out import ResultNames
from penstock.spark.gate.arrival_metrics import RANKS
from penstock.spark.gate.codec import GateReport
from penstock.spark.gate.columns import Gate
from penstock.spark.guard_driver import Guard
from penstock.spark.losses import Losses
from penstock.spark.progress import (
    Progress,
    counts_rows,
    weighted_quantiles,
    whole_numbers,
)
from penstock.spark.site_engine import SiteEngine, SourcesOfRun
from penstock.spark.stream_state import SourceState
from penstock.spark.whole_rows import WholeRows

Ages = npt.NDArray[np.float32]
"""Seconds; a site keeps many of them."""

log = logging.getLogger("penstock")
COUNT_EVERY_BATCHES = 64
"""An open gate looks at strata in one batch of so many, so that it knows them when it closes. Code
that Spark runs so rarely is slow: such a batch takes tenths of a second longer.
"""
STEADY_SHARE = 0.1
"""Rows for each step of an offset may vary by so much for the offset to tell how much waits."""
LATENCIES_KEPT = 20_000
"""Batches over which latencies are reported."""


RESULT_METRICS = "penstock_result"
"""The name under which a batch's progress tells the SIC of its results, empty ones included."""
RESULTS_KEPT = 4_000
"""Batches of which that is kept."""


class ResultBatch(NamedTuple):
    """Says what a batch brought to the result of its query (THEMIS, equation 4)."""

    committed: float
    """Seconds since the epoch."""
    sic: float
    """What came."""
    meant: float
    """What would have come, had nothing been shed of what these results are made of."""
    rows: int
    """Those that plain SQL shows."""


class BatchLatency(NamedTuple):
    """What is known of the latency of one batch's tuples."""

    waited: float
    """Seconds for which the oldest tuple waited before the batch began."""
    seconds: float
    """How long the batch took."""
    admitted: int
    ages: Ages | None = None
    """Seconds from arrival to commit at the quantiles ``RANKS``, where arrivals are known."""
    measured: int = 0
    """The admitted tuples that the ages stand for: those of gates whose stream tells arrivals."""


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
    engine: SiteEngine
    trigger_seconds: float = 0.0
    """Between the starts of two batches; 0 where one follows the other."""
    last_batch: int = -1
    """The newest that was told."""
    planned: int = -1
    """The newest that a plan was made for."""
    planned_at: float | None = None
    batches: int = 0
    """How many were planned in this run."""
    arrived: int = 0
    """Tuples that came to its gates in this run."""
    admitted: int = 0
    counted: bool = True
    """Whether that batch counts its strata even if the gate stands open."""
    latencies: deque[BatchLatency] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    results: deque[ResultBatch] = field(default_factory=lambda: deque(maxlen=RESULTS_KEPT))
    """Of a query whose result is observed."""
    lag: Lag = field(default_factory=Lag)
    """What waited beyond the newest batch when it was planned."""
    held_back: HeldBack = field(default_factory=HeldBack)
    names: ResultNames = field(default_factory=ResultNames)
    """What the site calls its sources, where another query is behind the same gate."""
    losses: Losses = field(default_factory=Losses)
    """What it loses behind its gates."""
    whole_rows: WholeRows = field(default_factory=WholeRows)
    """Which rows of its result may say that nothing of them was shed."""
    id: str = field(init=False)
    """Spark's id, which the checkpoint keeps over restarts."""
    run: str = field(init=False)
    """Spark's id of this start of the query."""
    executors: frozenset[str] = frozenset()
    """Those that there were when its newest batch was planned, where it matters that one is lost.
    """
    _backlog: Backlog | None = None
    _sources_of_run: SourcesOfRun | None = None
    _lags: dict[int, Lag] = field(default_factory=dict)
    """By batch, of those that were planned and are not told yet."""
    _rows_per_step: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    _mix: dict[str, Mapping[Stratum, Count]] = field(default_factory=dict)
    """For each gate, its strata in the last batch that was counted."""
    _last_start: float | None = None
    _offsets_unknown: bool = False

    def __post_init__(self) -> None:
        self.id, self.run = str(self.query.id), str(self.query.runId)

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
        lag = self._learn_backlog(progress)
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
            span=reports[0].span if len(reports) == 1 else None,
            clocks=self._clocks(reports),
            values={s: v for report in reports for s, v in report.values.items()},
            rates={s: r for report in reports for s, r in report.rates.items()},
            backlog=lag.tuples,
            read_limited=lag.limit is not None,
        )
        self.latencies.append(
            BatchLatency(
                waited, progress.seconds, batch.admitted, *_measured(reports, progress.ended)
            )
        )
        if (came := progress.observed.get(RESULT_METRICS)) is not None:
            rows = int(came["units"] or 0) - int(came["hidden"] or 0)
            sic, meant = float(came["sic"] or 0.0), float(came["meant"] or 0.0)
            self.results.append(ResultBatch(progress.ended, sic, meant, rows))
        self.arrived, self.admitted = self.arrived + batch.arrived, self.admitted + batch.admitted
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
        now = time.monotonic()  # a clock that is set right must not look like a pause
        waited = interval if self.planned_at is None else now - self.planned_at
        self.planned, self.planned_at = batch, now
        self.counted = not self._mix or _looks(self.batches)
        self.batches += 1
        sources = self._sources()
        if self._backlog is not None and sources:
            self.lag = self._lags[batch] = self._backlog.beyond(sources)
        return Upcoming(
            self.name,
            waited,
            self._waiting(sources),
            backlog=self.lag.tuples,
            read_limited=self.lag.limit is not None,
        )

    def _sources(self) -> list[SourceState]:
        """How far the sources are; nothing where this Spark does not tell."""
        if self._offsets_unknown:
            return []
        try:
            self._sources_of_run = self._sources_of_run or self.engine.source_reader(self.query)
            sources = self._sources_of_run.read()
            if self._backlog is None:
                limits = self.engine.read_limits(self.query)
                told_apart = len(limits) == len(sources)
                self._backlog = Backlog(limits if told_apart else [None] * len(sources))
        except PenstockError as error:
            log.warning("%s: bursts and backlogs are seen a batch late: %s", self.name, error)
            self._offsets_unknown = True
            return []
        return sources

    def _waiting(self, sources: list[SourceState]) -> int | None:
        """How many rows the batch has, by the sources' offsets, where these can tell.

        They count rows, or have moved in step with them of late. Of the very first batch nobody
        knows where it begins; where it begins at the start, it has at most all that there is.
        """
        if all(source.before is None for source in sources) and self._begins_at_latest():
            return None
        steps = sum(whole_numbers(s.after) - whole_numbers(s.before) for s in sources)
        if all(counts_rows(source.after) for source in sources):
            return steps
        ratios = self._rows_per_step
        if len(ratios) < 2 or max(ratios) > (1 + STEADY_SHARE) * min(ratios):
            return None
        return round(steps * ratios[-1])

    def _begins_at_latest(self) -> bool:
        try:
            return self.engine.begins_at_latest(self.query)
        except PenstockError as error:
            log.debug("%s: %s", self.name, error)
            return True

    def _learn_backlog(self, progress: Progress) -> Lag:
        """Takes in how a batch went, seen from its sources; answers what waited beyond it."""
        lag = self._lags.get(progress.batch)
        self._lags = {number: its for number, its in self._lags.items() if number > progress.batch}
        if lag is None:
            lag = self.lag = told_by(progress)
        if self._backlog is not None:
            self._backlog.learn(lag, progress)
        on_time = progress.seconds <= self.trigger_seconds
        reading = BatchReading(progress.started, progress.rows, lag, on_time)
        if self.held_back.note(reading):
            log.warning("%s: %s", self.name, self.held_back)
        return lag

    def _learn_offsets(self, progress: Progress) -> None:
        before, after = progress.offsets
        if after > before and before > 0 and progress.rows:
            self._rows_per_step.append(progress.rows / (after - before))


def _looks(batch: int) -> bool:
    """Often while a query is young (in its batches 1, 2, 4, 8 and so on), rarely later."""
    return batch % COUNT_EVERY_BATCHES == 0 or batch & (batch - 1) == 0


def _measured(reports: Iterable[GateReport], committed: float) -> tuple[Ages | None, int]:
    """Returns the ages of admitted tuples when their batch was committed, where gates know."""
    known = [r.arrivals for r in reports if r.arrivals is not None and r.arrivals.admitted]
    if not known:
        return None, 0
    ages = [arrivals.ages(committed) for arrivals in known]
    weights = [
        np.full(its.size, arrivals.admitted / its.size)
        for its, arrivals in zip(ages, known, strict=True)
    ]
    found = weighted_quantiles(np.concatenate(ages), np.concatenate(weights), RANKS)
    return np.array(found, dtype=np.float32), sum(arrivals.admitted for arrivals in known)


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
