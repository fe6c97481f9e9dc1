"""Simulates the shedders that learn, LAS and Dearest First, for many runs at once.

Matrices are rare, so each run has a real ``Operator``, which gets its tuples a window at a time;
the decisions and the synchronisation are vectors over the runs.
"""

from collections import deque

import numpy as np

from penstock.core.types import Bools, Floats, Ints
from penstock.guard.admission import AIMED_SHARE_OF_THRESHOLD
from penstock.guard.guard_plan import TUPLES_BEHIND_FACTOR
from penstock.guard.sketch import Sketch
from penstock.lab.las import dearest_first as df
from penstock.lab.las.fleet import ForesightFleet
from penstock.lab.las.operator import Operator
from penstock.lab.las.protocol_messages import Matrices
from penstock.lab.las.streams import Items, ParallelRuns, StreamPhase

WINDOW_TUPLES = 1024
SKETCH_FAILURE_CHANCE = 0.1


class Learners:
    """Has the operators of all runs, and what the shedders know from their matrices."""

    def __init__(
        self, runs: ParallelRuns, kind: type[Operator], window: int = WINDOW_TUPLES
    ) -> None:
        self.items, self.window = runs.items, window
        self.costs = runs.phases[0].costs
        width, universe = runs.width, self.costs.shape[1]
        cells: dict[tuple[int, float], Ints] = {}
        self.cells: list[Ints] = []
        self.operators: list[Operator] = []
        for seed, error in zip(runs.seed.tolist(), runs.error.tolist(), strict=True):
            sketch = Sketch(error, SKETCH_FAILURE_CHANCE, seed)
            if (seed, error) not in cells:
                cells[seed, error] = sketch.hashes.cells(np.arange(universe, dtype=np.uint64))
            self.cells.append(cells[seed, error])
            self.operators.append(kind(sketch, window))
        self.estimates = np.zeros((width, universe))
        """ŵ of each item in each run, by the matrices that its shedder has."""
        self.mean, self.spread, self.lag = np.zeros(width), np.ones(width), np.ones(width)
        """What these say of a tuple on average, how far above that they can go, and what the last
        tuples took, over what these say of them."""
        self.base = np.arange(width) * universe
        self.known = np.zeros(width, dtype=bool)
        self.left = np.full(width, window)
        """Tuples until the operator looks at its matrices."""
        self.flushed = np.zeros(width, dtype=np.int64)
        self.log = np.zeros(self.items.shape, dtype=bool)
        self.under_way: list[deque[tuple[float, Matrices]]] = [deque() for _ in range(width)]
        self.due = np.full(width, np.inf)
        if runs.warm is not None:
            self._warm_up(runs.warm)

    def _warm_up(self, items: Items) -> None:
        for run, operator in enumerate(self.operators):
            self._read(run, warmed(operator, items[:, run], self.costs[run]))
        self.known[:] = True

    def _read(self, run: int, told: Matrices) -> None:
        sketch = told.sketch
        self.estimates[run] = sketch.costs_at(self.cells[run])
        self.mean[run], self.spread[run], self.lag[run] = sketch.mean, sketch.spread, told.scale

    def begin(self, number: int, phase: StreamPhase) -> None:
        """Begins a phase of other costs."""
        for run in range(len(self.operators)):
            self._flush(run, number)
        self.costs = phase.costs

    def received(self, now: Floats) -> Bools | None:
        """Returns which runs get new matrices at this time; None where none does."""
        ready = self.due <= now
        if not ready.any():
            return None
        for run in np.flatnonzero(ready).tolist():
            waiting = self.under_way[run]
            while waiting and waiting[0][0] <= now[run]:
                _, told = waiting.popleft()
            self._read(run, told)
            self.due[run] = waiting[0][0] if waiting else np.inf
        self.known |= ready
        return np.asarray(ready)

    def asked(self, items: Items) -> Floats:
        """Returns the estimated costs of items."""
        return np.asarray(self.estimates.reshape(-1)[self.base + items])

    def executed(self, number: int, kept: Bools, done: Floats) -> None:
        """Counts tuples that were kept, and sends matrices that are due."""
        self.log[number] = kept
        self.left -= kept
        if self.left.min() > 0:
            return
        for run in np.flatnonzero(self.left == 0).tolist():
            self._flush(run, number)
            for message in self.operators[run].look():
                assert isinstance(message, Matrices)
                self.under_way[run].append((float(done[run]), message))
                self.due[run] = self.under_way[run][0][0]
            self.left[run] = self.window

    def _flush(self, run: int, until: int) -> None:
        since = slice(self.flushed[run], until)
        items = self.items[since, run][self.log[since, run]]
        operator, costs = self.operators[run], self.costs[run][items]
        operator.sketch.update_at(self.cells[run][:, items], costs)
        operator.noticed(items[-df.RECENT_TUPLES :].tolist(), costs[-df.RECENT_TUPLES :].tolist())
        self.flushed[run] = until


def warmed(operator: Operator, items: Items, costs: Floats) -> Matrices:
    """Returns what an operator sends after these tuples; it goes on from there."""
    operator.sketch.update(items.astype(np.uint64), costs[items])
    return operator.send()


class Synchronisation:
    """Keeps one request at a time under way from each shedder, and what came back."""

    def __init__(self, width: int) -> None:
        self.waiting = np.zeros(width, dtype=bool)
        self.due = np.full(width, np.inf)
        self.skew = np.zeros(width)

    def send(self, which: Bools, total: Floats, done: Floats) -> None:
        """Sends requests from these runs."""
        self.waiting |= which
        self.due = np.where(which, done, self.due)
        self.skew = np.where(which, done - total, self.skew)

    def corrections(self, idle: Floats) -> Floats:
        """Returns what ``shedder.correction`` does, for all runs."""
        return np.where(idle <= 0.0, self.skew, np.maximum(self.skew - idle, 0.0))

    def received(self, now: Floats) -> Bools | None:
        """Returns which runs get a reply at this time."""
        ready = self.due <= now
        if not ready.any():
            return None
        self.waiting &= ~ready
        self.due[ready] = np.inf
        return np.asarray(ready)


class LoadAwareFleet(ForesightFleet):
    """Is ``shedder.LoadAware`` with ``operator.Operator``."""

    def __init__(self, runs: ParallelRuns, window: int = WINDOW_TUPLES) -> None:
        super().__init__(runs)
        self.learners = Learners(runs, Operator, window)
        self.sync = Synchronisation(runs.width)
        self.caution = 1.0 + runs.error
        self.to_send = np.zeros(runs.width, dtype=bool)

    def begin(self, number: int, phase: StreamPhase) -> None:
        """Begins a phase of other costs."""
        self.learners.begin(number, phase)

    def estimates(self, items: Items, costs: Floats) -> Floats:
        """Returns what tuples will cost by the matrices."""
        del costs
        return self.learners.asked(items) * self.caution

    def keeps(self, number: int, now: Floats, items: Items, costs: Floats) -> Bools:
        """Returns which runs keep their tuple."""
        news = self.learners.received(now)
        if news is not None:
            self.to_send |= news
        replies = self.sync.received(now)
        if replies is not None:
            self.total[replies] += self.sync.corrections(self.idle)[replies]
        known = self.learners.known
        if known.all():
            return super().keeps(number, now, items, costs)
        before = self.total, self.sum.copy(), self.count.copy(), self.idle.copy()
        keeps = super().keeps(number, now, items, costs)
        after = self.total, self.sum, self.count, self.idle
        self.total, self.sum, self.count, self.idle = (
            np.where(known, new, old) for new, old in zip(after, before, strict=True)
        )
        return np.asarray(keeps | ~known)

    def executed(self, number: int, kept: Bools, wait: Floats, costs: Floats, done: Floats) -> None:
        """Tells operators and requests what was kept."""
        del wait, costs
        if self.to_send.any():
            asking = self.to_send & kept & ~self.sync.waiting
            self.sync.send(asking, self.total, done)
            self.idle[asking] = 0.0
            self.to_send &= ~asking
        self.learners.executed(number, kept, done)


class DearestFirstFleet:
    """Is ``dearest_first.DearestFirst`` with its ``FadingOperator``."""

    def __init__(self, runs: ParallelRuns, window: int = WINDOW_TUPLES) -> None:
        self.learners = Learners(runs, df.FadingOperator, window)
        self.sync = Synchronisation(runs.width)
        self.threshold = runs.threshold
        zeros = [np.zeros(runs.width) for _ in range(14)]
        self.total, self.mean, self.excess = zeros[:3]
        self.since, self.work, self.wait, self.idle = zeros[3:7]
        self.done_work, self.done_wait, self.done_tuples = zeros[7:10]
        self.told_work, self.told_tuples, self.told_estimate, self.told_late = zeros[10:]
        self.limit = self.threshold * (1.0 + TUPLES_BEHIND_FACTOR)
        self.scale = np.ones(runs.width)
        self.clean, self.void = np.ones(runs.width, dtype=bool), np.zeros(runs.width, dtype=bool)

    def begin(self, number: int, phase: StreamPhase) -> None:
        """Begins a phase of other costs."""
        self.learners.begin(number, phase)

    def keeps(self, number: int, now: Floats, items: Items, costs: Floats) -> Bools:
        """Returns which runs keep their tuple."""
        del number, costs
        self._receive(now)
        known = self.learners.known
        said = np.where(known, self.learners.asked(items), self.mean)
        cost = said * self.scale
        start = np.maximum(self.total, now)
        wait, delay = start - now, self._delay_of_others(cost)
        keeps = (wait + delay <= self.limit) & ~self._overdrawn(wait)
        idle = self.limit + df.LIMIT_STEP_SHARE * (self.threshold + delay) * (
            (wait == 0.0) & ~keeps
        )
        step = df.LIMIT_STEP_SHARE * (AIMED_SHARE_OF_THRESHOLD * self.threshold - wait)
        step = np.where(self._owes(), np.minimum(step, 0.0), step)
        self.limit = np.where(keeps, self._between(self.limit + step), idle)
        owed = self._owed(wait - AIMED_SHARE_OF_THRESHOLD * self.threshold)
        self.excess = np.where(keeps, owed, self.excess)
        self.idle += (start - self.total) * keeps
        self.total = np.where(keeps, start + cost, self.total)
        self.work += said * keeps
        self.wait += wait * keeps
        self.since += keeps
        return np.asarray(keeps)

    def _owes(self) -> Bools:
        return np.asarray(self.excess > df.OVERDRAFT_TUPLES * self.threshold)

    def _overdrawn(self, wait: Floats) -> Bools:
        most = df.OVERDRAFT_TUPLES * self.threshold
        share = np.divide(self.excess, most, out=np.zeros_like(most), where=most > 0.0)
        return self._owes() & (wait > AIMED_SHARE_OF_THRESHOLD * self.threshold * (2.0 - share))

    def _delay_of_others(self, cost: Floats) -> Floats:
        mean = np.where(self.learners.known, self.learners.mean, self.mean) * self.scale
        relative = np.divide(cost, mean, out=np.zeros_like(cost), where=mean > 0.0)
        return np.asarray(TUPLES_BEHIND_FACTOR * self.threshold * relative)

    def _highest(self) -> Floats:
        return np.asarray(self.threshold * (2.0 + TUPLES_BEHIND_FACTOR * self.learners.spread))

    def _between(self, limit: Floats) -> Floats:
        return np.maximum(
            np.minimum(limit, self._highest()), df.LOWEST_LIMIT_IN_THRESHOLDS * self.threshold
        )

    def _owed(self, more: Floats) -> Floats:
        most = 2 * df.OVERDRAFT_TUPLES * self.threshold
        return np.maximum(
            np.minimum(self.excess + more, most), -self._highest() / df.LIMIT_STEP_SHARE
        )

    def executed(self, number: int, kept: Bools, wait: Floats, costs: Floats, done: Floats) -> None:
        """Tells operators and requests what was kept."""
        self.done_work += costs * kept
        self.done_wait += wait
        self.done_tuples += kept
        asking = kept & (self.since >= df.TUPLES_PER_REQUEST) & ~self.sync.waiting
        if asking.any():
            self.sync.send(asking, self.total, done)
            self.told_estimate[asking] = (self.work * self.clean)[asking]
            self.told_work[asking] = self.done_work[asking]
            self.told_late[asking] = (self.done_wait - self.wait)[asking]
            self.told_tuples[asking] = self.done_tuples[asking]
            for counted in (self.since, self.work, self.wait, self.idle):
                counted[asking] = 0.0
            for counted in (self.done_work, self.done_wait, self.done_tuples):
                counted[asking] = 0.0
            self.clean |= asking
        self.learners.executed(number, kept, done)

    def _receive(self, now: Floats) -> None:
        """Replies and matrices of the same moment may come in either order: see ``void``."""
        replies = self.sync.received(now)
        if replies is not None:
            self._replied(replies)
        highest = self._highest()
        news = self.learners.received(now)
        if news is not None:
            stays_open = news & (self.limit >= highest)
            self.limit = np.where(stays_open, self._highest(), self.limit)
            self.scale[news] = self.learners.lag[news]
            self.clean &= ~news
            self.void = np.where(news, self.sync.waiting, self.void)

    def _replied(self, replies: Bools) -> None:
        self.total[replies] += self.sync.corrections(self.idle)[replies]
        self.excess = np.where(replies, self._owed(self.told_late), self.excess)
        moved = self.limit - df.LIMIT_STEP_SHARE * self.told_late
        self.limit = np.where(replies, self._between(moved), self.limit)
        blind = replies & ~self.learners.known
        self.mean[blind] = self.told_work[blind] / self.told_tuples[blind]
        telling = replies & self.learners.known & ~self.void & (self.told_estimate > 0.0)
        if telling.any():
            ratio = self.told_work[telling] / (self.told_estimate * self.scale)[telling]
            factor = _scaled_by(
                np.log(np.maximum(ratio, df.LEAST_WORK_SHARE)), self.told_tuples[telling]
            )
            self.scale[telling] *= factor
        self.void &= ~replies


def _scaled_by(surprise: Floats, tuples: Floats) -> Floats:
    """Returns the factors of ``DearestFirst._be_surprised``."""
    clear = np.abs(surprise) * np.sqrt(tuples) > df.CLEAR_SURPRISE_LOG
    replies = np.where(clear, tuples / df.TUPLES_PER_REQUEST, 1.0)
    most = df.MOST_SURPRISE_LOG * replies
    return np.exp(
        np.clip(surprise, -most, most) * (1.0 - (1.0 - df.SURPRISE_TRUST_SHARE) ** replies)
    )
