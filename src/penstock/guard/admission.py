"""Admission stands before a user's function: it times it, learns what keys cost, and sheds.

The rule is that of ``dearest_first``: a tuple is admitted where ``wait + κ · cost ≤ L`` with
``κ = 1.5 · τ / mean cost``, and the limit L moves so that the average wait comes to the threshold
τ. The term ``κ · cost`` is the wait that the tuple *imposes* on those behind it. An ``Admission``
runs beside the function, so it need not foresee a tuple's own wait: it reads the clock when the
tuple's turn comes. While L is at its top, no tuple that has waited for less than 2 τ is shed,
whatever wait it imposes, and no key is looked up.

An ``Admission`` decides on a *block* of tuples at once: about as many as the function does in two
milliseconds, or in a hundredth of τ. That is one tuple where the function is slow and hundreds
where it takes microseconds, so deciding and learning cost little in both cases. One ``Admission``
serves one task. What it has learnt goes into a ``TaskReport``, and the reports of all tasks go into
the ``GuardPlan`` of the next.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core.types import Bools, Floats, Ints
from penstock.guard.guard_plan import TUPLES_BEHIND_FACTOR, GuardPlan
from penstock.guard.hashes import Words
from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport, error_line

BLOCK_SECONDS = 0.002
"""How long the function should take for a block ..."""
BLOCK_SHARE_OF_THRESHOLD = 0.01
"""... or this share of the threshold, where that is longer."""
LARGEST_BLOCK_TUPLES = 512
FAST_FUNCTION_SECONDS = 1e-4
"""Of a function that takes less than this for a tuple, an ``Admission`` times only some blocks
tuple by tuple, and learns only from those."""
BLOCKS_PER_TIMED_BLOCK = 8
"""It then times one block out of so many."""
FIRST_REFRESH_TUPLES = 32
"""After so many admitted tuples a task looks up again what its keys cost, by what it has learnt
itself; then after twice as many, and so on."""
LIMIT_STEP_SHARE = 0.05
"""A tuple moves the limit by at most this share of what it waits too little or too long."""
LIMIT_STEPS_PER_THRESHOLD = 15.0
"""All tuples of a time τ together move the limit by at most this many times what one of them waits
too little or too long. What is decided now is felt when the next micro-batch comes: a limit that
moved with each of a hundred thousand fast tuples would swing."""
LARGEST_MOVE_SHARE_OF_TOP = 0.05
"""The limit never moves further than this at once, as a share of its top: a tuple from years ago
has waited for years."""
AIMED_SHARE_OF_THRESHOLD = 0.97
"""The average wait that the limit aims at, as a share of the threshold; the rest is for what cannot
be foreseen."""

Function = Callable[[Any], Any]
Rows = Callable[[Ints], Sequence[Any]]
"""Makes the rows at these places when it is called: a row that is shed need not be made."""
Costs = Callable[[Words], Floats]
"""Answers the cost of a tuple of each of these keys, in seconds."""


class Admission:
    """Decides for one task which tuples the function gets, and runs the function on them.

    ``costs`` replaces what was learnt about keys, for callers who know their cost, or who compare.
    """

    def __init__(
        self,
        function: Function,
        plan: GuardPlan,
        clock: Callable[[], float],
        skip_errors: bool = False,
        costs: Costs | None = None,
    ) -> None:
        self.function, self.clock, self.skip_errors = function, clock, skip_errors
        self.plan = plan
        self.top = plan.top
        self.limit = min(plan.limit, self.top)
        self.sketch = plan.sketch.copy()
        self.report = TaskReport(Sketch(seed=plan.sketch.seed, shape=plan.sketch.shape))
        self._costs = costs or self._learnt_costs
        self._recent_cost = plan.sketch.mean
        self._blocks = 0
        self._trial = plan.trial
        self._timed: list[tuple[Ints, Floats]] = []

    def admit(
        self,
        rows: Rows,
        keys: Words,
        arrived: Floats,
        strata: Ints | None = None,
    ) -> tuple[list[int], list[Any]]:
        """Returns the places of the admitted rows, and what the function answered for each.

        There is a row for each key. ``arrived`` is in the time of the clock, and ``strata`` are
        fingerprints of the strata by which the report counts the rows.
        """
        arrived = np.minimum(arrived, self.clock())  # by a clock that is ahead, it has just come
        places: list[int] = []
        results: list[Any] = []
        imposed: Floats | None = None
        at = refresh_at = 0
        trial = int(self._trial * keys.size) if self._trial >= 0.0 else -1
        self._trial = -1.0
        while at < keys.size:
            block = slice(at, at + self._block_size())
            now = self.clock()
            waits = self.waits(now, arrived[block])
            if not self._admits_all(waits):
                if imposed is None or self.report.admitted >= refresh_at:
                    self._learn(keys, strata)
                    imposed = self._imposed_waits(keys)
                    refresh_at = 2 * self.report.admitted + FIRST_REFRESH_TUPLES
                admits = self._admits(waits, imposed[block])
                if at <= trial < block.stop:
                    admits[trial - at] = True
                admitted = np.flatnonzero(admits) + at
            else:
                admitted = np.arange(at, min(block.stop, keys.size))
            self._run(rows, admitted, now, arrived, places, results)
            self.report.shed += waits.size - admitted.size
            at = block.stop
        self._learn(keys, strata)
        if imposed is not None and self.report.admitted <= 1:
            self._raise_limit_if_idle(self.waits(self.clock(), arrived), imposed)
        if strata is not None:
            _add_up(self.report.seen, strata)
            _add_up(self.report.lost, np.delete(strata, places))
        return places, results

    def take_back(self, places: Ints, strata: Ints | None, error: str) -> None:
        """Counts rows as failed that were admitted, since their answers turned out unusable."""
        self.report.error = error
        self.report.waited *= 1.0 - places.size / max(self.report.admitted, 1)
        self.report.admitted -= places.size
        self.report.failed += places.size
        if strata is not None:
            _add_up(self.report.lost, strata[places])

    def waits(self, now: float, arrived: Floats) -> Floats:
        """Returns how long tuples have waited. A subclass that foresees waits overrides this."""
        return now - arrived

    def _block_size(self) -> int:
        if self._recent_cost <= 0.0:
            return 1
        seconds = max(BLOCK_SECONDS, BLOCK_SHARE_OF_THRESHOLD * self.plan.threshold)
        return min(max(int(seconds / self._recent_cost), 1), LARGEST_BLOCK_TUPLES)

    def _imposed_waits(self, keys: Words) -> Floats:
        """Returns κ · cost: how long others wait for a tuple of each of these keys."""
        mean = self.sketch.mean
        if mean <= 0.0:
            return np.zeros(keys.size)
        return np.asarray(self._costs(keys) * (TUPLES_BEHIND_FACTOR * self.plan.threshold / mean))

    def _admits_all(self, waits: Floats) -> bool:
        """Tells whether even the dearest key would be admitted: then no key need be looked up."""
        return float(waits.max()) + self.top - 2.0 * self.plan.threshold <= self.limit

    def _admits(self, waits: Floats, imposed: Floats) -> Bools:
        return np.asarray(waits + imposed <= self.limit)

    def _raise_limit_if_idle(self, waits: Floats, imposed: Floats) -> None:
        """Raises a limit that shed nearly all tuples although there was time for some of them."""
        if float(waits.min()) < AIMED_SHARE_OF_THRESHOLD * self.plan.threshold:
            self._move_limit(max(float((waits + imposed).min()) - self.limit, 0.0))

    def _run(
        self,
        rows: Rows,
        admitted: Ints,
        start: float,
        arrived: Floats,
        places: list[int],
        results: list[Any],
    ) -> None:
        """Runs the function on the admitted rows of a block, which began at ``start``."""
        if not admitted.size:
            return
        chosen = rows(admitted)
        slow = self._recent_cost >= FAST_FUNCTION_SECONDS
        waited = admitted.size * start - float(arrived[admitted].sum())
        if slow or self._blocks % BLOCKS_PER_TIMED_BLOCK == 0 or self.skip_errors:
            good, costs = self._run_one_by_one(chosen, start, results)
            self._timed.append((admitted, costs))
            places += admitted[good].tolist()
            waited += float(np.cumsum(costs)[:-1].sum())
            self._count(admitted.size, len(good), float(costs.sum()), waited)
        else:
            results += [self.function(row) for row in chosen]
            places += admitted.tolist()
            took = self.clock() - start
            waited += took * (admitted.size - 1) / 2
            self._count(admitted.size, admitted.size, took, waited)

    def _run_one_by_one(
        self, rows: Sequence[Any], start: float, results: list[Any]
    ) -> tuple[list[int], Floats]:
        """Returns on which rows the function did not raise, and how long each of all rows took.

        Making the rows began at ``start``; each of them bears its part of that.
        """
        function, clock = self.function, self.clock
        done = [clock()]
        making = (done[0] - start) / len(rows)
        good: list[int] = []
        for place, row in enumerate(rows):
            try:
                result = function(row)
            except Exception as error:
                if not self.skip_errors:
                    raise
                self.report.failed += 1
                self.report.error = error_line(error)
            else:
                good.append(place)
                results.append(result)
            done.append(clock())
        return good, np.diff(np.array(done)) + making

    def _count(self, ran: int, good: int, took: float, waited: float) -> None:
        """Counts a block of ``ran`` tuples that waited so long in sum; ``good`` were answered."""
        report, mean = self.report, took / ran
        report.admitted += good
        report.waited += waited * good / ran
        report.busy += took
        known = self._recent_cost > 0.0
        self._recent_cost = 0.5 * (self._recent_cost + mean) if known else mean
        self._blocks += 1
        threshold = self.plan.threshold
        step = min(LIMIT_STEP_SHARE, LIMIT_STEPS_PER_THRESHOLD * self._recent_cost / threshold)
        self._move_limit(step * (AIMED_SHARE_OF_THRESHOLD * threshold * ran - waited))

    def _move_limit(self, by: float) -> None:
        before, most = self.limit, LARGEST_MOVE_SHARE_OF_TOP * self.top
        moved = before + max(min(by, most), -most)
        self.limit = max(min(moved, self.top), self.plan.threshold)
        self.report.moved += self.limit - before

    def _learnt_costs(self, keys: Words) -> Floats:
        return self.sketch.costs(keys)

    def _learn(self, keys: Words, strata: Ints | None) -> None:
        """Puts what was timed into the sketches, many tuples at once."""
        if not self._timed:
            return
        places = np.concatenate([admitted for admitted, _ in self._timed])
        costs = np.concatenate([cost for _, cost in self._timed])
        self._timed.clear()
        cells = self.sketch.hashes.cells(keys[places])
        self.sketch.update_at(cells, costs)
        self.report.sketch.update_at(cells, costs)
        if strata is not None:
            self._count_timed(strata[places], costs)

    def _count_timed(self, strata: Ints, costs: Floats) -> None:
        names, which = np.unique(strata, return_inverse=True)
        sums, counts = np.bincount(which, costs), np.bincount(which)
        timed = self.report.timed
        for name, count, seconds in zip(names.tolist(), counts, sums, strict=True):
            known, before = timed.get(name, (0, 0.0))
            timed[name] = known + int(count), before + float(seconds)


def _add_up(counts: dict[int, int], strata: Ints) -> None:
    for name, count in zip(*np.unique(strata, return_counts=True), strict=True):
        counts[int(name)] = counts.get(int(name), 0) + int(count)
