"""Watch mode: a site decides, counts and tells what it would shed, and sheds nothing.

A job that sheds nothing falls behind under overload: a batch has all that arrived while the one
before ran, and takes longer still. A decision about such a batch says little of a job that sheds.
So each batch is *replayed* when it has finished: its arrivals are divided into the batches that a
job in time would have had, and the controller decides on one after another. It is told that each
took what its tuples would have taken, by the times of the batches that there really were; so it
learns, accounts and corrects itself as it would if it shed.

A read limit makes a job that is behind read little, and seldom. A job that sheds would read as much
in each of its batches, which come sooner; what it would read more is what waits at the source. So
the limit applies to the batches that there would have been, and what they leave is kept count of.

What cannot be seen while nothing is shed is what a tuple costs that is shed: a share is assumed.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from penstock.core.account import Account
from penstock.core.controller import Controller
from penstock.core.cost import SHED_COST_SHARE
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Batch, Floats, Plan, Report, Strata, Tally, Upcoming
from penstock.spark.query import LATENCIES_KEPT, BatchLatency

log = logging.getLogger("penstock")
MOST_PERIODS = 40
"""Of a batch that was due so long ago only the end is replayed; more would teach nothing."""
SLACK = 0.25
"""A batch may have this part of a period more than one before it is divided."""
REMEMBERED_BATCHES, FORGET = 64, 0.95
"""The batches that times are fitted to, and how much less each older one counts."""
MOVED_LOAD_FACTOR = 1.5
"""By this factor batches must differ for them to tell what a batch costs without any tuple."""
MOST_OVERHEADS = 3.0
"""That cost is at most so many times what Spark reports to have spent outside of the batch's job:
the first batches of a cold JVM are small and slow, and would make it much larger.
"""


@dataclass
class RealTimes:
    """What the batches of a stream really take: ``seconds = fixed + each · arrived``."""

    seen: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    """Seconds and arrivals of the last batches."""
    fixed: float = 0.0
    each: float = 0.0

    def learn(self, batch: Batch) -> None:
        """Takes one more batch, all of which was admitted."""
        self.seen.append((batch.seconds, batch.arrived))
        seconds, arrived = np.maximum(np.array(self.seen).T, 1e-6)
        least, most = 0.0, float(seconds.min())
        if batch.overhead is not None:
            least = min(batch.overhead, batch.seconds)
            most = min(MOST_OVERHEADS * batch.overhead, batch.seconds)
        fixed = least
        if arrived.max() > MOVED_LOAD_FACTOR * arrived.min():
            weight = FORGET ** np.arange(seconds.size - 1, -1, -1.0) / seconds  # in proportion
            fixed = float(np.polyfit(arrived, seconds, 1, w=weight)[1])
        self.fixed = min(max(fixed, least), most)
        self.each = (batch.seconds - self.fixed) / max(batch.arrived, 1)

    def would_take(self, arrived: float, admitted: float) -> float:
        """Answers the seconds of a batch of which only so much is admitted."""
        read = SHED_COST_SHARE * arrived + (1 - SHED_COST_SHARE) * admitted
        return self.fixed + self.each * read


@dataclass
class WouldRead:
    """What a job that sheds would find at the sources of a stream, and read of it.

    While no read limit has cut a batch short, that is what there really was.
    """

    limit: float | None = None
    """The tuples of the largest batch that a limit has cut short."""
    waits: float = 0.0
    """What would wait beyond the batch that was replayed last."""
    told: float = 0.0
    """What really waited beyond the last batch."""
    came: float = 0.0
    """Tuples that came to the sources, and are not replayed yet."""

    def learn(self, batch: Batch) -> None:
        """Takes in a batch, and what has come to the sources since the one before."""
        before = self.told
        self.told = before if batch.backlog is None else batch.backlog
        if batch.read_limited:
            self.limit = max(self.limit or 0.0, batch.arrived)
        if self.limit is None:
            self.waits, self.came = self.told, float(batch.arrived)
        else:
            self.came += batch.arrived + self.told - before

    def read(self, came: float, batches: float = 1.0) -> float:
        """Answers what so many batches would read when so many more tuples have come."""
        self.came -= came
        if self.limit is None:
            return came
        there = max(self.waits + came, 0.0)
        read = min(there, self.limit * batches)
        self.waits = there - read
        return read

    def rest(self, usual: float) -> float:
        """Answers how many seconds may be left over for the next time, of a usual batch's."""
        return 1e-9 if self.limit is None else usual / 2

    def length(self, usual: float, left: float) -> float:
        """Answers the seconds of the next batch, of those that are left.

        Without a limit none is left with next to nothing. With one, as much is read however long
        a batch lasts, so that it must last as long as it would.
        """
        return left / max(round(left / usual), 1) if self.limit is None else usual


@dataclass
class Watching:
    """Steps a controller through what would be, and adds up what it would shed."""

    would_shed: dict[str, float] = field(default_factory=dict)
    """Tuples, by query."""
    would_latencies: dict[str, deque[BatchLatency]] = field(default_factory=dict)
    """By stream: the batches that there would have been."""
    passed: Account | None = None
    """What really passed; the controller's account has what would have."""
    _times: dict[str, RealTimes] = field(default_factory=dict)
    _sources: dict[str, WouldRead] = field(default_factory=dict)
    _now: float = 0.0
    """The time of the batch that was replayed last, which is behind the real one."""

    def __post_init__(self) -> None:
        log.warning("this site only watches: it sheds nothing, and tells what it would shed")

    def steps(self, controller: Controller) -> Callable[[State, Report], tuple[State, Plan]]:
        """Answers what stands in for the controller's ``step``."""
        return partial(self.step, controller)

    def step(self, controller: Controller, state: State, report: Report) -> tuple[State, Plan]:
        """Does what ``Controller.step`` does, and answers a plan under which all is admitted."""
        for batch in report.finished:
            state = self.replay(controller, state, batch, report.now)
        starting = report.starting and _in_time(report.starting, controller.settings)
        now = self._now or report.now
        told = replace(report, now=now, finished=(), starting=starting)
        state, plan = controller.step(state, told)
        return state, opened(plan)

    def replay(self, controller: Controller, state: State, batch: Batch, now: float) -> State:
        """Answers the state after the batches that one would have been that has finished.

        The next of them starts when the interval is over and the one before is done.
        """
        settings, name, tally = controller.settings, batch.stream, Tally.of(batch.counts)
        passed = self.passed or Account(settings.interval, settings.stw_seconds)
        self.passed = passed.record(now, batch.counts)
        self._times.setdefault(name, RealTimes()).learn(batch)
        sources, period = self._sources.setdefault(name, WouldRead()), _period(name, settings)
        span = _span(batch, state, settings)
        sources.learn(batch)
        came = sources.came / span
        left = min(span, MOST_PERIODS * period)
        stands_for = span - left  # the first one stands for what is too long ago, too
        sources.read(came * stands_for, stands_for / period)
        while left > sources.rest(self._length(name, settings)):
            length = sources.length(self._length(name, settings), left)
            left -= length
            self._now = max(self._now, batch.started - left)
            reads = sources.read(came * length)
            limited = sources.limit is not None and sources.waits > 0
            starting = Upcoming(name, length, round(reads), None, sources.waits, limited)
            state, plan = controller.step(state, Report(self._now, starting=starting))
            rates = rates_of(plan, tally.strata)
            self._add(tally, rates, (length + stands_for) / span)
            stands_for = 0.0
            last = state.streams[name].batch if name in state.streams else -1
            would = self._would(batch, rates, reads / max(batch.arrived, 1))
            would = replace(would, number=last + 1, started=batch.started - left)
            self._latencies(name).append(BatchLatency(length, would.seconds, would.admitted))
            state, _ = controller.step(state, Report(self._now, finished=(would,)))
        return state

    def _length(self, stream: str, settings: Settings) -> float:
        """Answers the seconds between the start of the last batch and that of the next."""
        interval, before = settings.interval_of(stream), self._latencies(stream)
        return max(interval, before[-1].seconds) if before else interval

    def _would(self, batch: Batch, rates: Floats, share: float) -> Batch:
        """Answers the batch that a share of these tuples would have been at these rates."""
        tally = Tally.of(batch.counts)
        would = replace(
            tally, arrived=tally.arrived * share, admitted=tally.admitted * rates * share
        )
        seconds = self._times[batch.stream].would_take(
            float(would.arrived.sum()), float(would.admitted.sum())
        )
        all_pass = bool((rates >= 1.0).all())
        by_stratum = dict(zip(tally.strata, rates.tolist(), strict=True)) if batch.rates else {}
        return replace(
            batch,
            seconds=seconds,
            counts=would,
            work=None if batch.work is None else batch.work * seconds / max(batch.seconds, 1e-6),
            overhead=None if batch.overhead is None else min(batch.overhead, seconds),
            span=batch.span * share if batch.span is not None and all_pass else None,
            rates={s: by_stratum.get(s, rate) for s, rate in batch.rates.items()},
        )

    def _latencies(self, stream: str) -> deque[BatchLatency]:
        return self.would_latencies.setdefault(stream, deque(maxlen=LATENCIES_KEPT))

    def _add(self, tally: Tally, rates: Floats, share: float) -> None:
        """Adds what this share of the tuples would have lost, by query."""
        grouping = tally.strata.grouping
        shed = tally.arrived * (1.0 - rates) * share
        totals = np.bincount(grouping.query, shed, len(grouping.queries))
        for query, total in zip(grouping.queries, totals.tolist(), strict=True):
            self.would_shed[query] = self.would_shed.get(query, 0.0) + total


def opened(plan: Plan) -> Plan:
    """Answers the plan with everything admitted.

    >>> opened(Plan(7, default_rate=0.5)).open
    True
    """
    unlisted = dict.fromkeys(plan.unlisted, 1.0)
    return replace(plan, rates=np.ones(plan.rates.size), default_rate=1.0, unlisted=unlisted)


def rates_of(plan: Plan, strata: Strata) -> Floats:
    """Answers the rate of each of these strata under a plan."""
    places = plan.strata.places(strata)
    rates = np.append(plan.rates, plan.default_rate)[places]
    for place in np.flatnonzero(places < 0).tolist() if plan.unlisted else ():
        rates[place] = plan.default_of(strata[place].query)
    return np.asarray(rates)


def _span(batch: Batch, state: State, settings: Settings) -> float:
    """Answers the seconds in which the tuples of a batch arrived."""
    known = state.streams.get(batch.stream)
    span = batch.started - known.last_start if known and known.last_start else 0.0
    return span if span > 0.0 else settings.interval_of(batch.stream)


def _period(stream: str, settings: Settings) -> float:
    """Answers the seconds from one batch to the next where the site keeps its promise."""
    return max(settings.interval_of(stream), settings.budget_of(stream))


def _in_time(starting: Upcoming, settings: Settings) -> Upcoming:
    """Answers the batch that would start now if the ones before had been in time."""
    period, arrived = _period(starting.stream, settings), starting.arrived
    if starting.waited <= (1 + SLACK) * period:
        return starting
    share = period / starting.waited
    return replace(
        starting, waited=period, arrived=None if arrived is None else round(arrived * share)
    )
