"""Says how late results are, from Spark's reports of its batches and the stream's schedule.

When a tuple arrives is a pure function of its offset (`penstock.sources.schedule`), and a batch
covers a range of offsets, so the latency of every tuple is known without asking any of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core.types import Floats
from penstock.sources.schedule import SECOND, Schedule
from penstock.spark.progress import Progress, weighted_quantiles

SAMPLES_PER_BATCH = 40
"""How many tuples of a batch, evenly spaced, stand for all in the latency."""


@dataclass(frozen=True)
class Commit:
    """Is a micro-batch that has ended, with tuples [first, stop); times are microseconds."""

    batch: int
    first: int
    stop: int
    began: int
    ended: int
    stream_start: int

    @property
    def seconds(self) -> float:
        """Returns how long the batch took."""
        return (self.ended - self.began) / SECOND

    @property
    def rows(self) -> int:
        """Returns how many tuples the batch had."""
        return self.stop - self.first

    @classmethod
    def of(cls, report: str) -> "Commit | None":
        """Reads Spark's progress report in JSON; None if it tells of no batch."""
        progress = Progress.of(report)
        (source,) = progress.sources
        if not source.end or not progress.ran:
            return None
        began = round(progress.started * SECOND)
        return cls(
            batch=progress.batch,
            first=source.start["offset"] if source.start else 0,
            stop=source.end["offset"],
            began=began,
            ended=began + round(progress.seconds * SECOND),
            stream_start=round(source.end["start"] * SECOND),
        )


@dataclass(frozen=True)
class Reading:
    """Holds what can be said of a run at one moment."""

    elapsed: float
    """Seconds since the stream began."""
    through: float
    """The share of the run that is over."""
    load: float
    """What arrives, as a multiple of what the machine can process."""
    rate: float
    arrived: int
    admitted: int
    shed: int
    waiting: int
    sic: float
    batch_seconds: float
    latency: float
    """Seconds that the oldest tuple without a result has waited."""


@dataclass(frozen=True)
class Latency:
    """Holds seconds from a tuple's arrival to the end of its batch."""

    p50: float
    p95: float
    worst: float


def best_rate(commits: Iterable[Commit]) -> float:
    """Returns the rate of the fastest batch, since another program may have slowed others down."""
    return max(commit.rows / commit.seconds for commit in commits)


def marginal_rate(commits: Sequence[Commit]) -> float:
    """Returns tuples a second without what every batch costs.

    It compares the smallest batch with the largest. More than three times the best rate is noise.
    """
    best = best_rate(commits)
    small, large = min(commits, key=_rows), max(commits, key=_rows)
    longer = large.seconds - small.seconds
    more = (large.rows - small.rows) / longer if longer > 0 else math.inf
    return min(max(best, more), 3 * best)


def _rows(commit: Commit) -> int:
    return commit.rows


def oldest(schedule: Schedule, done: int, now: int) -> float:
    """Returns the seconds since the arrival of the first tuple that no batch has covered."""
    if schedule.offset_at(now) <= done:
        return 0.0
    return float(now - schedule.arrival_of(np.array([done]))[0]) / SECOND


def latency(
    commits: Iterable[Commit], admitted: Mapping[int, int], schedule: Schedule, end: int
) -> Latency:
    """Computes latencies over all tuples that were not shed.

    A tuple that waits at the end counts with its age so far. Without these, a job so far behind
    that it answers nothing would seem fast.
    """
    ages, weights, done = [np.zeros(0)], [np.zeros(0)], 0
    for commit in commits:
        kept = admitted.get(commit.batch, commit.rows)
        ages.append(_ages(schedule, commit.first, commit.stop, commit.ended))
        weights.append(np.full(ages[-1].size, kept / SAMPLES_PER_BATCH))
        done = max(done, commit.stop)
    waiting = schedule.offset_at(end) - done
    ages.append(_ages(schedule, done, done + waiting, end))
    weights.append(np.full(ages[-1].size, waiting / SAMPLES_PER_BATCH))
    return _summed_up(np.concatenate(ages), np.concatenate(weights))


def _ages(schedule: Schedule, first: int, stop: int, at: int) -> Floats:
    if stop <= first:
        return np.zeros(0)
    offsets = np.linspace(first, stop - 1, SAMPLES_PER_BATCH).astype(np.int64)
    ages: Floats = (at - schedule.arrival_of(offsets)) / SECOND
    return ages


def _summed_up(ages: Floats, weights: Floats) -> Latency:
    if not weights.sum() > 0:
        return Latency(0.0, 0.0, 0.0)
    return Latency(*weighted_quantiles(ages, weights, (0.5, 0.95, 1.0)))
