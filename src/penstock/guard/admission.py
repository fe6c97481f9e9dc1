"""Stands in front of a user's function: times it, learns what keys cost, sheds what would wait.

The rule is that of ``dearest_first``: a tuple is kept where ``wait + κ · cost ≤ L`` with
``κ = 1.5 · τ / mean cost``, and the limit L moves so that the average wait comes to the threshold
τ. A admission stands next to the function, so it need not foresee the wait: it looks at the clock
when the tuple's turn comes. While L is at its top, the *toll* ``κ · cost`` turns nobody away who
has waited for less than 2 τ, and nobody's key is looked at.

Decisions are taken for a *block* at once, about as many tuples as are done in two milliseconds, or
in a hundredth of τ: one, where the function is slow, and hundreds, where it takes microseconds, so
that deciding and learning cost little in both cases. One admission serves one task; what it learnt
goes into a ``TaskReport``, and the tallies of all tasks into the ``GuardPlan`` of the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from penstock.core.types import Bools, Floats, Ints
from penstock.guard.sketch import Sketch, Words

BLOCK_SECONDS, BLOCK_SHARE = 0.002, 0.01
"""What a block should take, and how much of the threshold that may be where it is more."""
LARGEST_BLOCK = 512
LEARN_ALL = 1e-4
"""Of functions faster than this, only some blocks are timed tuple by tuple and learnt from."""
SAMPLE = 8
"""One block in so many then."""
REFRESH = 32
"""Tuples after which a task looks again at what it has learnt itself; then after twice as many."""
PACE = 0.05
"""How far a tuple may move the limit, of what it waits too little or too long."""
SWING = 15.0
"""How far all tuples of a time τ together may move it. What is decided now is felt when the next
micro-batch comes: a limit that moves with each of a hundred thousand fast tuples swings."""
LONGEST_COMPLAINT = 300
MEMORY, MEMORY_SECONDS = 2048, 5.0
"""Half of what was learnt is forgotten after so many tuples, and after as much work."""

Function = Callable[[Any], Any]
Rows = Callable[[Ints], Sequence[Any]]
"""The rows at these places, made when they are asked for: a row that is shed need not be made."""
Costs = Callable[[Words], Floats]

RELUCTANCE = 1.5
"""How often the tuples that stand behind this one count. Between 1 and 2 it hardly matters."""
MARGIN = 0.97
"""The share of the threshold that is aimed at; the rest is for what is not foreseen."""


@dataclass(frozen=True)
class GuardPlan:
    """What a task is told when it starts."""

    threshold: float
    """τ: seconds that tuples may wait, on average."""
    limit: float = inf
    """L."""
    sketch: Sketch = field(default_factory=Sketch)
    trial: float = 0.0
    """How far into its rows a task finds the tuple that it keeps in any case; below 0, it has none.
    So learning goes on, and no key is shed for ever because of what it cost once."""

    @property
    def top(self) -> float:
        """The highest limit that makes a difference."""
        return self.threshold * (2.0 + RELUCTANCE * self.sketch.spread)

    def after(self, tally: "TaskReport", tasks: int) -> "GuardPlan":
        """With what one of ``tasks`` tasks that ran beside each other has learnt."""
        sketch = self.sketch.copy()
        sketch.fade(0.5 ** min(tally.sketch.tuples / MEMORY, tally.busy / MEMORY_SECONDS))
        sketch += tally.sketch
        learnt = replace(self, sketch=sketch)
        limit = min(self.limit, self.top) + tally.moved / tasks
        if limit > self.top - self.threshold:  # it turns away nobody who has not waited for τ:
            limit += learnt.top - self.top  # so it stays, also where something dearer came
        return replace(learnt, limit=max(limit, self.threshold))


@dataclass
class TaskReport:
    """What one task did. Times are in seconds, and sums over the tuples that were kept."""

    sketch: Sketch
    kept: int = 0
    shed: int = 0
    failed: int = 0
    waited: float = 0.0
    busy: float = 0.0
    moved: float = 0.0
    """How far the limit was moved."""
    strata: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By fingerprint of a stratum: tuples that were timed, and their cost."""
    seen: dict[int, int] = field(default_factory=dict)
    """By fingerprint of a stratum: tuples that came."""
    lost: dict[int, int] = field(default_factory=dict)
    """And those that were shed, or failed."""
    error: str = ""
    """What the function, or whoever had to do with its answer, last complained of."""

    @property
    def arrived(self) -> int:
        return self.kept + self.shed + self.failed


class Admission:
    """``costs`` replaces what was learnt, for those who know better, or want to compare."""

    def __init__(
        self,
        function: Function,
        orders: GuardPlan,
        clock: Callable[[], float],
        skip_errors: bool = False,
        costs: Costs | None = None,
    ) -> None:
        self.function, self.clock, self.skip_errors = function, clock, skip_errors
        self.orders = orders
        self.top = orders.top
        self.limit = min(orders.limit, self.top)
        self.sketch = orders.sketch.copy()
        self.tally = TaskReport(Sketch(seed=orders.sketch.seed, shape=orders.sketch.shape))
        self._costs = costs or self._learnt
        self._pace = orders.sketch.mean
        """What a tuple takes on average, of late."""
        self._blocks = 0
        self._trial = orders.trial
        self._timed: list[tuple[Ints, Floats]] = []

    def admit(
        self,
        rows: Rows,
        keys: Words,
        arrived: Floats,
        strata: Ints | None = None,
    ) -> tuple[list[int], list[Any]]:
        """Which of the rows were kept, a row for each key, and what the function made of them.

        ``arrived`` is in the time of the clock, and ``strata`` are fingerprints of what the rows
        are to be reported by.
        """
        arrived = np.minimum(arrived, self.clock())  # by a clock that is ahead, it has just come
        places: list[int] = []
        results: list[Any] = []
        tolls: Floats | None = None
        at = look = 0
        trial = int(self._trial * keys.size) if self._trial >= 0.0 else -1
        self._trial = -1.0
        while at < keys.size:
            block = slice(at, at + self._block_size())
            now = self.clock()
            waits = self.waits(now, arrived[block])
            if not self._all_welcome(waits):
                if tolls is None or self.tally.kept >= look:
                    self._learn(keys, strata)
                    tolls, look = self._tolls(keys), 2 * self.tally.kept + REFRESH
                keeps = self._keeps(waits, tolls[block])
                if at <= trial < block.stop:
                    keeps[trial - at] = True
                kept = np.flatnonzero(keeps) + at
            else:
                kept = np.arange(at, min(block.stop, keys.size))
            self._run(rows, kept, now, arrived, places, results)
            self.tally.shed += waits.size - kept.size
            at = block.stop
        self._learn(keys, strata)
        if tolls is not None and self.tally.kept <= 1:
            self._let_somebody_in(self.waits(self.clock(), arrived), tolls)
        if strata is not None:
            _add_up(self.tally.seen, strata)
            _add_up(self.tally.lost, np.delete(strata, places))
        return places, results

    def take_back(self, places: Ints, strata: Ints | None, error: str) -> None:
        """Rows whose answers turned out to be of no use: they failed."""
        self.tally.error = error
        self.tally.waited *= 1.0 - places.size / max(self.tally.kept, 1)
        self.tally.kept -= places.size
        self.tally.failed += places.size
        if strata is not None:
            _add_up(self.tally.lost, strata[places])

    def waits(self, now: float, arrived: Floats) -> Floats:
        """How long tuples have waited. To be overridden by those who would rather foresee it."""
        return now - arrived

    def _block_size(self) -> int:
        if self._pace <= 0.0:
            return 1
        seconds = max(BLOCK_SECONDS, BLOCK_SHARE * self.orders.threshold)
        return min(max(int(seconds / self._pace), 1), LARGEST_BLOCK)

    def _tolls(self, keys: Words) -> Floats:
        """κ · cost: how long others wait for tuples of these keys."""
        mean = self.sketch.mean
        if mean <= 0.0:
            return np.zeros(keys.size)
        return np.asarray(self._costs(keys) * (RELUCTANCE * self.orders.threshold / mean))

    def _all_welcome(self, waits: Floats) -> bool:
        """Whoever would be kept at the highest toll there is: no need to look at keys."""
        return float(waits.max()) + self.top - 2.0 * self.orders.threshold <= self.limit

    def _keeps(self, waits: Floats, tolls: Floats) -> Bools:
        return np.asarray(waits + tolls <= self.limit)

    def _let_somebody_in(self, waits: Floats, tolls: Floats) -> None:
        """There was time, and hardly anybody was kept: the limit turns all of them away."""
        if float(waits.min()) < MARGIN * self.orders.threshold:
            self._move(max(float((waits + tolls).min()) - self.limit, 0.0))

    def _run(
        self,
        rows: Rows,
        kept: Ints,
        start: float,
        arrived: Floats,
        places: list[int],
        results: list[Any],
    ) -> None:
        if not kept.size:
            return
        chosen = rows(kept)
        each = self._pace >= LEARN_ALL or self._blocks % SAMPLE == 0 or self.skip_errors
        waited = kept.size * start - float(arrived[kept].sum())
        if each:
            good, costs = self._one_by_one(chosen, start, results)
            self._timed.append((kept, costs))
            places += kept[good].tolist()
            waited += float(np.cumsum(costs)[:-1].sum())
            self._count(kept.size, len(good), float(costs.sum()), waited)
        else:
            results += [self.function(row) for row in chosen]
            places += kept.tolist()
            took = self.clock() - start
            waited += took * (kept.size - 1) / 2
            self._count(kept.size, kept.size, took, waited)

    def _one_by_one(
        self, rows: Sequence[Any], start: float, results: list[Any]
    ) -> tuple[list[int], Floats]:
        """Which of them the function did not choke on, and what each of them took.

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
                self.tally.failed += 1
                self.tally.error = complaint(error)
            else:
                good.append(place)
                results.append(result)
            done.append(clock())
        return good, np.diff(np.array(done)) + making

    def _count(self, ran: int, good: int, took: float, waited: float) -> None:
        """A block of ``ran`` tuples that waited so long in sum; ``good`` of them came out."""
        tally, mean = self.tally, took / ran
        tally.kept += good
        tally.waited += waited * good / ran
        tally.busy += took
        self._pace = mean if self._pace <= 0.0 else 0.5 * (self._pace + mean)
        self._blocks += 1
        pace = min(PACE, SWING * self._pace / self.orders.threshold)
        self._move(pace * (MARGIN * self.orders.threshold * ran - waited))

    def _move(self, by: float) -> None:
        """Never far at once: a tuple from years ago has waited for long."""
        before, most = self.limit, PACE * self.top
        moved = before + max(min(by, most), -most)
        self.limit = max(min(moved, self.top), self.orders.threshold)
        self.tally.moved += self.limit - before

    def _learnt(self, keys: Words) -> Floats:
        return self.sketch.costs(keys)

    def _learn(self, keys: Words, strata: Ints | None) -> None:
        """What was timed goes into the sketches, many at once."""
        if not self._timed:
            return
        places = np.concatenate([kept for kept, _ in self._timed])
        costs = np.concatenate([cost for _, cost in self._timed])
        self._timed.clear()
        cells = self.sketch.hashes.cells(keys[places])
        self.sketch.update_at(cells, costs)
        self.tally.sketch.update_at(cells, costs)
        if strata is not None:
            self._count_strata(strata[places], costs)

    def _count_strata(self, strata: Ints, costs: Floats) -> None:
        names, which = np.unique(strata, return_inverse=True)
        sums, counts = np.bincount(which, costs), np.bincount(which)
        for name, count, seconds in zip(names.tolist(), counts, sums, strict=True):
            known, before = self.tally.strata.get(name, (0, 0.0))
            self.tally.strata[name] = known + int(count), before + float(seconds)


def _add_up(counts: dict[int, int], strata: Ints) -> None:
    for name, count in zip(*np.unique(strata, return_counts=True), strict=True):
        counts[int(name)] = counts.get(int(name), 0) + int(count)


def complaint(error: Exception) -> str:
    """In a line, for a report."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= LONGEST_COMPLAINT else text[: LONGEST_COMPLAINT - 1] + "…"
