"""Simulates a site: it runs the controller that Spark runs, on what waits in its input buffer."""

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
def calibrated(tuples: float, capacity: float) -> StreamState:
    """Makes a stream whose cost model has seen batches of various sizes, as on a machine in use.

    A simulated machine starts warm; from here on it learns from its own batches.
    """
    clock = ThreeTermCost()
    for number in range(CALIBRATION_BATCHES):
        admitted = tuples * (0.4 + 0.6 * (number % 7) / 6)
        clock = clock.update(admitted / capacity, tuples * (1 + number % 3), admitted)
    return StreamState(clock=clock)


class SimulatedSite:
    """Turns counts into reports and plans into rates, in the order of its own strata."""

    def __init__(
        self,
        strata: Strata,
        shares: Floats,
        partial: Bools,
        controller: Controller,
        capacity: float,
    ) -> None:
        self.strata, self._controller = strata, controller
        self._stream = calibrated(capacity * controller.settings.interval, capacity)
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
        tally = Tally(self.strata, waiting, np.zeros(waiting.size))
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
