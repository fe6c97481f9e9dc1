"""What a guard promises, in virtual time, each promise beside a sabotage that must break it.

The function itself notes how long each tuple has waited; nothing here believes the report.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock.core.types import Floats, Ints
from penstock.guard.admission import Admission
from penstock.guard.guard_plan import GuardPlan
from penstock.guard.hashes import fingerprints
from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport
from tests.sabotage import NeverSheds, TakesCostsForTheAverage

COSTS = np.array([0.001, 0.005, 0.025])
"""Seconds, by kind of tuple; there are as many of each."""
WAIT = 0.2
SECONDS, SETTLED = 40.0, 10.0


@dataclass
class Guarded:
    """A function behind admissions; its micro-batches take what came while the last one ran."""

    make: type[Admission]
    overload: float = 2.0
    now: float = 0.0
    waits: list[float] = field(default_factory=list)
    """Of the tuples that arrived when all was settled, and that the function got."""
    arrived: int = 0
    busy: float = 0.0

    def run(self) -> Guarded:
        rng, plan = np.random.default_rng(1), GuardPlan(WAIT, sketch=Sketch(0.01))
        gap, since = float(COSTS.mean()) / self.overload, 0.0
        while self.now < SECONDS:
            count = max(int((self.now - since) / gap), 1)
            moments = np.asarray(since + gap * np.arange(count), dtype=np.float64)
            since += gap * count
            self.now = max(self.now, float(moments[-1]))
            self.arrived += int((moments >= SETTLED).sum())
            plan = plan.after(self._batch(plan, moments, rng.integers(0, COSTS.size, count)), 1)
        return self

    def _batch(self, plan: GuardPlan, moments: Floats, kinds: Ints) -> TaskReport:
        def function(row: int) -> None:
            if moments[row] >= SETTLED:
                self.waits.append(self.now - float(moments[row]))
                self.busy += float(COSTS[kinds[row]])
            self.now += float(COSTS[kinds[row]])

        admission = self.make(function, plan, lambda: self.now)
        admission.admit(lambda places: places.tolist(), fingerprints(kinds), moments)
        return admission.report

    @property
    def mean_wait(self) -> float:
        """In waits that were asked for."""
        return float(np.mean(self.waits)) / WAIT

    @property
    def needless(self) -> float:
        """How many tuples were shed for each that had to be, had only the dearest gone."""
        excess = self.arrived * float(COSTS.mean()) - self.busy
        return (self.arrived - len(self.waits)) / (excess / float(COSTS.max()))


@pytest.mark.parametrize("overload", [1.2, 2.0, 4.0])
def test_tuples_wait_no_longer_than_asked_on_average(overload: float) -> None:
    assert 0.5 < Guarded(Admission, overload).run().mean_wait <= 1.05


def test_sabotage_of_the_wait_is_caught() -> None:
    assert Guarded(NeverSheds).run().mean_wait > 5.0


def test_few_more_are_shed_than_the_dearest() -> None:
    assert Guarded(Admission).run().needless <= 1.25


def test_sabotage_of_what_keys_cost_is_caught() -> None:
    """It still holds the wait, by the clock, but at the cost of twice as many tuples."""
    broken = Guarded(TakesCostsForTheAverage).run()
    assert broken.mean_wait <= 1.05
    assert broken.needless > 1.7
