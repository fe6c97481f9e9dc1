"""Simulates a site: it runs the controller that Spark runs, on what waits in its input buffer."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.core.controller import Controller
from penstock.core.cost import ThreeTermCost
from penstock.core.state import State, StreamState
from penstock.core.types import (
    Batch,
    Bools,
    CoordinatorNews,
    Floats,
    Plan,
    Report,
    Strata,
    Tally,
    Upcoming,
)

STREAM = "site"
CALIBRATION_BATCHES = 40
"""How many batches the cost model of a simulated machine has seen before the run."""


@lru_cache(maxsize=4096)
def calibrated(tuples: float, capacity: float, idle: float = 0.0) -> ThreeTermCost:
    """Makes a cost model that has seen batches of various sizes, as on a machine in use.

    A simulated machine starts warm; from here on it learns from its own batches. ``idle`` is what
    every batch takes, in seconds.
    """
    clock = ThreeTermCost()
    for number in range(CALIBRATION_BATCHES):
        admitted = tuples * (0.4 + 0.6 * (number % 7) / 6)
        clock = clock.update(idle + admitted / capacity, tuples * (1 + number % 3), admitted)
    return clock


@dataclass(frozen=True)
class SiteMachine:
    """Is what a site runs on, and what its queries cost there."""

    capacity: float
    """Tuples a second, of such as cost one."""
    costs: Floats
    """Of a tuple of each stratum."""
    idle_cost: float
    """What the site's fragments cost a second, whatever arrives."""
    counts_strata: bool
    """Whether the site knows of each stratum how much waits, and not only of all together."""

    def stream(self, strata: Strata, interval: float) -> StreamState:
        """Makes the site's stream as it is on a machine in use.

        It knows what a tuple of each stratum costs, as on Spark a query's own stream tells, or
        the guards in it.
        """
        idle = interval * self.idle_cost / self.capacity
        clock = calibrated(self.capacity * interval, self.capacity, idle)
        if (self.costs == 1.0).all():
            return StreamState(clock=clock)
        costs = dict(zip(strata, self.costs.tolist(), strict=True))
        return StreamState(clock=clock, costs=costs, unit=1.0, clock_told=True, work_told=True)


class SimulatedSite:
    """Turns counts into reports and plans into rates, in the order of its own strata."""

    def __init__(
        self,
        strata: Strata,
        shares: Floats,
        partial: Bools,
        controller: Controller,
        machine: SiteMachine,
    ) -> None:
        self.strata, self._controller = strata, controller
        self._stream = machine.stream(strata, controller.settings.interval)
        self._counts_strata = machine.counts_strata
        self._keys = [(s.query, s.source) for s in strata]
        self._known_shares = shares
        self.partials = slice(int((~partial).sum()), None)
        """Strata of partial results; they come last."""
        self.reset()

    def reset(self) -> None:
        """Forgets everything but what the machine can do, as after a crash."""
        self._state = State(streams={STREAM: self._stream})
        self._finished: tuple[Batch, ...] = ()
        self._number = 0
        self._started: float | None = None
        self._told_shares = False

    def decide(
        self, now: float, waiting: Floats, shares: Floats, told: dict[str, CoordinatorNews]
    ) -> tuple[Floats, Floats]:
        """Gives each stratum its rate and a tuple's SIC; ``shares`` belong to the partials."""
        interval = self._controller.settings.interval
        waited = interval if self._started is None else now - self._started
        counted = self._counts_strata
        tally = Tally(self.strata, waiting, np.zeros(waiting.size)) if counted else None
        outlook = Upcoming(STREAM, waited, int(waiting.sum()), tally)
        partial = frozenset(self._keys[self.partials]) if self._number == 0 else frozenset()
        report = Report(now, self._finished, outlook, told, self._news_of_shares(shares), partial)
        self._state, plan = self._controller.step(self._state, report)
        self._started, self._finished = now, ()
        return self._in_order(plan)

    def finish(self, seconds: float, waiting: Floats, admitted: Floats) -> None:
        """Notes that the batch that was decided on last has run."""
        assert self._started is not None
        counts = Tally(self.strata, waiting, admitted)
        self._finished = (Batch(STREAM, self._number, self._started, seconds, counts),)
        self._number += 1

    def _news_of_shares(self, shares: Floats) -> dict[tuple[str, str], float]:
        news = dict(zip(self._keys[self.partials], shares.tolist(), strict=True))
        if not self._told_shares:
            self._told_shares = True
            own = self._known_shares.tolist()
            return {**dict(zip(self._keys, own, strict=True)), **news}
        return news

    def _in_order(self, plan: Plan) -> tuple[Floats, Floats]:
        places = self.strata.places(plan.strata)
        rates = np.full(len(self.strata), plan.default_rate)
        worth = np.full(len(self.strata), plan.default_sic)
        rates[places], worth[places] = plan.rates, plan.sic
        return rates, worth
