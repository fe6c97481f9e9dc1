"""A rival: dynamic sampling by key, in the manner of Honeycomb's Refinery, behind Penstock's gate.

It wants so many tuples a second in all, whatever the machine can do, and keeps an exponential
moving average of each key's tuples a second. A key is given a part of the goal that grows with the
logarithm of its average, so that rare keys are kept whole and frequent ones thinned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.core.controller import Controller
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Plan, Report, Strata, Stratum

WEIGHT_OF_THE_NEWEST = 0.5
"""In the moving average."""
LEAST_AVERAGE = 0.01
"""Tuples a second below which a key is forgotten."""


def key_rates(averages: Mapping[Stratum, float], goal: float) -> dict[Stratum, float]:
    """Returns the rate at which each key is admitted, so that ``goal`` tuples a second are.

    What a rare key does not need of its part is shared by the keys that are more frequent.

    >>> few, many = Stratum("q", "s", "few"), Stratum("q", "s", "many")
    >>> key_rates({few: 9.0, many: 999.0}, 100.0)[few]
    1.0
    >>> round(999 * key_rates({few: 9.0, many: 999.0}, 100.0)[many])
    91
    """
    left, rates = goal, {}
    parts = {key: float(np.log10(1 + count)) for key, count in averages.items()}
    together = sum(parts.values())
    for key in sorted(averages, key=lambda each: averages[each]):
        part = left * parts[key] / max(together, 1e-9)
        rates[key] = min(1.0, part / averages[key])
        left -= rates[key] * averages[key]
        together -= parts[key]
    return rates


@dataclass
class Averages:
    """Holds the moving average of each key's tuples a second, and when it was last moved."""

    values: dict[Stratum, float] = field(default_factory=dict)
    moved: float | None = None

    def move(self, counts: Mapping[Stratum, int], now: float) -> None:
        """Moves the averages towards what arrived since they were moved last."""
        if self.moved is not None and now > self.moved:
            for key in {*self.values, *counts}:
                rate = counts.get(key, 0) / (now - self.moved)
                before = self.values.get(key, rate)
                self.values[key] = before + WEIGHT_OF_THE_NEWEST * (rate - before)
            self.values = {k: v for k, v in self.values.items() if v >= LEAST_AVERAGE}
        self.moved = now


@dataclass(frozen=True)
class RefineryController(Controller):
    """Answers plans by the averages alone; it looks neither at the clock nor at the cost."""

    goal: float = 1.0
    averages: Averages = field(default_factory=Averages)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        """Learns what arrived, and returns the rates that make the goal of it."""
        state, plan = super().step(state, report)
        for batch in report.finished:
            arrived = {key: count.arrived for key, count in batch.counts.items()}
            self.averages.move(arrived, batch.started)
        rates = key_rates(self.averages.values, self.goal)
        strata = Strata(sorted(rates))
        worth = np.full(len(strata), 1e-6)
        found = np.array([rates[key] for key in strata], dtype=np.float64)
        return state, Plan(plan.version, strata, found, worth, default_sic=1e-6)


def refinery(goal: float) -> Callable[[Settings], Controller]:
    """Returns what makes such a controller for a site; the goal is in tuples a second."""
    return partial(RefineryController, goal=goal)
