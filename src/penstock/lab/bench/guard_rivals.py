"""The guards that the benchmark compares with the guard as it is."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.types import Bools, Floats, Ints
from penstock.guard.admission import Admission, Function, Rows
from penstock.guard.guard_plan import GuardPlan
from penstock.guard.hashes import Words

CORES = 2
"""The cores of the benchmark's Spark, which a straw man takes for one that is so much faster."""


class AdmittedSoFar:
    """Counts what all tasks of a run have admitted, in a file with a line for each block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def add(self, tuples: int, arrived: float) -> None:
        """Adds so many tuples; the first of them arrived then, in seconds since the epoch."""
        with self.path.open("a") as file:
            file.write(f"{tuples} {arrived}\n")

    def read(self, arrived: float) -> tuple[int, float]:
        """Returns how many there are, and when the first of them, or of those now, arrived."""
        lines = [line.split() for line in self.path.read_text().splitlines()]
        first = min([arrived, *(float(moment) for _, moment in lines)])
        return sum(int(tuples) for tuples, _ in lines), first


class StrawManAdmission(Admission):
    """Foresees a tuple's wait from the mean cost of all before it, and looks at no clock.

    It takes the cores for one operator that is so many times as fast.
    """

    def __init__(
        self,
        function: Function,
        plan: GuardPlan,
        clock: Callable[[], float],
        mean: float,
        so_far: AdmittedSoFar,
    ) -> None:
        super().__init__(function, plan, clock, costs=lambda keys: np.full(keys.size, mean))
        self._each, self._so_far = mean / CORES, so_far
        self._since_epoch = time.time() - clock()
        self._foreseen = 0.0

    def admit(
        self, rows: Rows, keys: Words, arrived: Floats, strata: Ints | None = None
    ) -> tuple[list[int], list[Any]]:
        """Admits tuples by the mean cost of all before them."""
        first = float(arrived.min()) + self._since_epoch
        before, began = self._so_far.read(first)
        already = self.report.admitted
        # Ĉ without what this task keeps, in the time of its clock
        self._foreseen = began - self._since_epoch + (before - already) * self._each
        answer = super().admit(rows, keys, arrived, strata)
        self._so_far.add(self.report.admitted - already, first)
        return answer

    def waits(self, now: float, arrived: Floats) -> Floats:
        """Returns the waits that it foresees from the mean cost."""
        del now
        own = self._each * (self.report.admitted + np.arange(arrived.size))
        return np.maximum(self._foreseen + own - arrived, 0.0)

    def _admits_all(self, waits: Floats) -> bool:
        """Applies the paper's CHECK to foreseen waits; the usual limit would follow real ones."""
        return bool(waits.max() <= self.plan.threshold)

    def _admits(self, waits: Floats, imposed: Floats) -> Bools:
        del imposed
        return np.asarray(waits <= self.plan.threshold)


class ExactCosts:
    """Knows the cost of each key, by its fingerprint."""

    def __init__(self, costs: Mapping[int, float]) -> None:
        order = sorted(costs)
        self._keys = np.array(order, dtype=np.int64).view(np.uint64)
        place = np.argsort(self._keys)
        self._keys = self._keys[place]
        self._costs = np.array([costs[key] for key in order])[place]

    def __call__(self, keys: Words) -> Floats:
        found = np.searchsorted(self._keys, keys)
        return np.asarray(self._costs[np.minimum(found, self._keys.size - 1)])
