"""Admissions that hold another promise than an average wait: LAS' CHECK is a choice.

The usual admission moves its limit so that the *average* wait comes to the threshold, and sheds the
dearest tuples first. LAS (section III-C) names two more promises that its CHECK may keep. Both look
at nothing but a tuple's own wait, so that which tuples go is a matter of when they came.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal

import numpy as np

from penstock.core.types import Bools, Floats
from penstock.errors import PenstockError
from penstock.guard.admission import Admission, Costs, Function
from penstock.guard.guard_plan import GuardPlan
from penstock.guard.hashes import Words

WaitCheck = Literal["average", "absolute", "sliding"]
MakeChecked = Callable[[Function, GuardPlan, Callable[[], float]], Admission]


class CheckedAdmission(Admission):
    """Is what both have in common: no limit moves, no key is looked up, and nothing is tried."""

    def __init__(
        self,
        function: Function,
        plan: GuardPlan,
        clock: Callable[[], float],
        skip_errors: bool = False,
        costs: Costs | None = None,
    ) -> None:
        super().__init__(function, plan, clock, skip_errors, costs)
        self._trial = -1.0

    def _imposed_waits(self, keys: Words) -> Floats:
        return np.zeros(keys.size)

    def _admits_all(self, waits: Floats) -> bool:
        del waits
        return False

    def _move_limit(self, by: float) -> None:
        del by

    def _at_their_turn(self, waits: Floats) -> Floats:
        """Returns what the tuples of a block will have waited when their turn comes."""
        return waits + self._recent_cost * np.arange(waits.size)


class AbsoluteAdmission(CheckedAdmission):
    """Is ABS(τ): no tuple waits for longer than τ.

    It is exact where a block is one tuple; of a fast function, to within what a block takes.
    """

    def _admits(self, waits: Floats, imposed: Floats) -> Bools:
        del imposed
        return np.asarray(self._at_their_turn(waits) <= self.plan.threshold)


class SlidingAdmission(CheckedAdmission):
    """Keeps the average wait of the last tuples that a task admitted at most τ.

    It tries a tuple in the average first, as LAS does, and forgets it where that would be too much.
    """

    window = 4096
    """How many tuples the average is over."""

    def __init__(
        self,
        function: Function,
        plan: GuardPlan,
        clock: Callable[[], float],
        skip_errors: bool = False,
        costs: Costs | None = None,
    ) -> None:
        super().__init__(function, plan, clock, skip_errors, costs)
        self._kept: deque[float] = deque()
        self._total = 0.0

    def _admits(self, waits: Floats, imposed: Floats) -> Bools:
        del imposed
        turns = self._at_their_turn(waits).tolist()
        return np.array([self._takes(wait) for wait in turns], dtype=np.bool_)

    def _takes(self, wait: float) -> bool:
        full = len(self._kept) == self.window
        total = self._total + wait - (self._kept[0] if full else 0.0)
        if not total <= self.plan.threshold * (len(self._kept) + (not full)):
            return False
        if full:
            self._kept.popleft()
        self._kept.append(wait)
        self._total = total
        return True


KINDS: dict[WaitCheck, type[Admission]] = {
    "average": Admission,
    "absolute": AbsoluteAdmission,
    "sliding": SlidingAdmission,
}


def holding(check: WaitCheck, skip_errors: bool) -> MakeChecked | None:
    """Returns what makes the admissions of a guard that holds this; None for the usual one."""
    if check not in KINDS:
        raise PenstockError(f"check must be one of {', '.join(KINDS)}; got {check!r}")
    if check == "average":
        return None
    kind = KINDS[check]

    def make(function: Function, plan: GuardPlan, clock: Callable[[], float]) -> Admission:
        return kind(function, plan, clock, skip_errors)

    return make
