"""Stands in front of a user's function: times it, learns what keys cost, sheds what would wait.

The rule is that of ``dearest_first``: a tuple is kept where ``wait + κ · cost ≤ L``, and the limit
L moves so that the average wait comes to the threshold. A doorman stands next to the function, so
it need not foresee the wait: it looks at the clock when the tuple's turn comes.

Decisions are taken for a *block* at once, about as many tuples as are done in two milliseconds:
one, where the function is slow, and hundreds, where it takes microseconds, so that deciding and
learning cost little in both cases. One doorman serves one task; what it learnt goes into a
``Tally``, and the tallies of all tasks into the ``Orders`` of the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.las.dearest_first import MARGIN, PACE, RELUCTANCE
from penstock.sketch import Sketch, Words
from penstock.types import Bools, Floats, Ints

BLOCK_SECONDS = 0.002
"""What a block should take."""
LARGEST_BLOCK = 512
LEARN_ALL = 1e-4
"""Of functions faster than this, only some blocks are timed tuple by tuple and learnt from."""
SAMPLE = 8
"""One block in so many then."""
REFRESH = 32
"""Slow tuples from one look at the sketch to the next."""
FASTEST_MOVE = 1 / 16
"""Of the threshold: how far a block may move the limit, at least."""
MEMORY = 2048
"""Tuples after which half of what was learnt is forgotten."""

Function = Callable[[Any], Any]
Costs = Callable[[Words], Floats]


@dataclass(frozen=True)
class Orders:
    """What a task is told when it starts."""

    threshold: float
    """Seconds that tuples may wait, on average."""
    limit: float
    """L."""
    dearest: float = 0.0
    """The largest cost seen of late."""
    sketch: Sketch = field(default_factory=Sketch)

    def between(self, limit: float) -> float:
        highest = 2 * self.threshold + RELUCTANCE * self.dearest
        return max(min(limit, highest), self.threshold)

    def after(self, tally: "Tally", tasks: int) -> "Orders":
        """With what one of ``tasks`` tasks that ran beside each other has learnt."""
        sketch = self.sketch.copy()
        sketch.fade(0.5 ** (tally.sketch.tuples / MEMORY))
        sketch += tally.sketch
        moved = replace(self, sketch=sketch, dearest=max(0.9 * self.dearest, tally.dearest))
        return replace(moved, limit=moved.between(self.limit + tally.moved / tasks))


@dataclass
class Tally:
    """What one task did. Times are in seconds, and sums over the tuples that were kept."""

    sketch: Sketch
    kept: int = 0
    shed: int = 0
    failed: int = 0
    waited: float = 0.0
    busy: float = 0.0
    moved: float = 0.0
    """How far the limit was moved."""
    dearest: float = 0.0
    strata: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By fingerprint of a stratum: tuples that were timed, and their cost."""
    lost: dict[int, int] = field(default_factory=dict)
    """By fingerprint of a stratum: tuples that were shed, or failed."""

    @property
    def arrived(self) -> int:
        return self.kept + self.shed + self.failed


class Doorman:
    """``costs`` replaces what was learnt, for those who know better, or want to compare."""

    def __init__(
        self,
        function: Function,
        orders: Orders,
        clock: Callable[[], float],
        skip_errors: bool = False,
        costs: Costs | None = None,
    ) -> None:
        self.function, self.clock, self.skip_errors = function, clock, skip_errors
        self.orders = orders
        self.limit = orders.limit
        self.sketch = orders.sketch.copy()
        self.tally = Tally(Sketch(seed=orders.sketch.seed, shape=orders.sketch.shape))
        self._costs = costs or self._learnt
        self._pace = orders.sketch.mean
        """What a tuple takes on average, of late."""
        self._blocks = 0
        self._timed: list[tuple[Ints, Floats]] = []

    def admit(
        self,
        rows: Sequence[Any],
        keys: Words,
        arrived: Floats,
        strata: Ints | None = None,
    ) -> tuple[list[int], list[Any]]:
        """Which of the rows were kept, and what the function made of them.

        ``arrived`` is in the time of the clock, and ``strata`` are fingerprints of what the rows
        are to be reported by.
        """
        places: list[int] = []
        results: list[Any] = []
        costs: Floats | None = None
        at = fresh = 0
        while at < len(rows):
            block = slice(at, at + self._block_size())
            now = self.clock()
            waits = self.waits(now, arrived[block])
            if not self._all_welcome(waits):
                if costs is None or self.tally.kept - fresh >= REFRESH:
                    self._learn(keys, strata)
                    costs, fresh = self._costs(keys), self.tally.kept
                kept = np.flatnonzero(self._keeps(waits, costs[block])) + at
            else:
                kept = np.arange(at, min(block.stop, len(rows)))
            self._run(rows, kept, now, arrived, places, results)
            self.tally.shed += min(block.stop, len(rows)) - at - kept.size
            at = block.stop
        self._learn(keys, strata)
        if strata is not None and len(places) < len(rows):
            self._count_lost(np.delete(strata, places))
        return places, results

    def take_back(self, places: Ints, strata: Ints | None) -> None:
        """Rows whose answers turned out to be of no use: they failed."""
        self.tally.waited *= 1.0 - places.size / max(self.tally.kept, 1)
        self.tally.kept -= places.size
        self.tally.failed += places.size
        if strata is not None:
            self._count_lost(strata[places])

    def waits(self, now: float, arrived: Floats) -> Floats:
        """How long tuples have waited. To be overridden by those who would rather foresee it."""
        return now - arrived

    def _block_size(self) -> int:
        if self._pace <= 0.0:
            return 1
        return min(max(int(BLOCK_SECONDS / self._pace), 1), LARGEST_BLOCK)

    def _dearest(self) -> float:
        return max(self.orders.dearest, self.tally.dearest)

    def _all_welcome(self, waits: Floats) -> bool:
        """The dearest tuple that was ever seen would be kept: no need to look at keys."""
        return float(waits.max()) + RELUCTANCE * self._dearest() <= self.limit

    def _keeps(self, waits: Floats, costs: Floats) -> Bools:
        """And the very first tuple of a task is kept in any case, so that learning goes on."""
        keeps = np.asarray(waits + RELUCTANCE * costs <= self.limit)
        if not self.tally.arrived:
            keeps[np.argmin(costs)] = True
        if not keeps.any() and float(waits.min()) <= 0.0:
            self._move(PACE * (self.orders.threshold + float(costs.min())))
        return keeps

    def _run(
        self,
        rows: Sequence[Any],
        kept: Ints,
        start: float,
        arrived: Floats,
        places: list[int],
        results: list[Any],
    ) -> None:
        if not kept.size:
            return
        chosen = kept.tolist()
        each = self._pace >= LEARN_ALL or self._blocks % SAMPLE == 0 or self.skip_errors
        waited = kept.size * start - float(arrived[kept].sum())
        if each:
            good, costs = self._one_by_one(rows, chosen, start, results)
            self._timed.append((kept, costs))
            waited += float(np.cumsum(costs)[:-1].sum())
            self._count(kept.size, len(good), float(costs.sum()), float(costs.max()), waited)
        else:
            good = chosen
            results += [self.function(rows[place]) for place in chosen]
            took = self.clock() - start
            waited += took * (kept.size - 1) / 2
            self._count(kept.size, kept.size, took, took / kept.size, waited)
        places += good

    def _one_by_one(
        self, rows: Sequence[Any], chosen: list[int], start: float, results: list[Any]
    ) -> tuple[list[int], Floats]:
        """Which of them the function did not choke on, and what each of them took."""
        function, clock, done = self.function, self.clock, []
        good: list[int] = []
        for place in chosen:
            try:
                result = function(rows[place])
            except Exception:
                if not self.skip_errors:
                    raise
                self.tally.failed += 1
            else:
                good.append(place)
                results.append(result)
            done.append(clock())
        return good, np.diff(np.array(done), prepend=start)

    def _count(self, ran: int, good: int, took: float, dearest: float, waited: float) -> None:
        """A block of ``ran`` tuples that waited so long in sum; ``good`` of them came out."""
        tally, mean = self.tally, took / ran
        tally.kept += good
        tally.waited += waited * good / ran
        tally.busy += took
        self._pace = mean if self._pace <= 0.0 else 0.5 * (self._pace + mean)
        tally.dearest = max(tally.dearest, dearest)
        self._blocks += 1
        self._move(PACE * (MARGIN * self.orders.threshold * ran - waited))

    def _move(self, by: float) -> None:
        most = max(RELUCTANCE * self._dearest(), FASTEST_MOVE * self.orders.threshold)
        before = self.limit
        highest = replace(self.orders, dearest=self._dearest())
        self.limit = highest.between(before + max(min(by, most), -most))
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

    def _count_lost(self, strata: Ints) -> None:
        for name, count in zip(*np.unique(strata, return_counts=True), strict=True):
            self.tally.lost[int(name)] = self.tally.lost.get(int(name), 0) + int(count)

    def _count_strata(self, strata: Ints, costs: Floats) -> None:
        names, which = np.unique(strata, return_inverse=True)
        sums, counts = np.bincount(which, costs), np.bincount(which)
        for name, count, seconds in zip(names.tolist(), counts, sums, strict=True):
            known, before = self.tally.strata.get(name, (0, 0.0))
            self.tally.strata[name] = known + int(count), before + float(seconds)
