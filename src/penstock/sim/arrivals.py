"""Simulates sources, which send batches of tuples at rates that may burst and change."""

import numpy as np

from penstock.core.types import Bools, Floats, Ints
from penstock.sim.deployment import Deployment
from penstock.sim.scenario import Scenario


class Arrivals:
    """Every source sends whole batches, each at a phase of its own.

    A source bursts on its own, in spells of geometric length, such that the share of its time in
    bursts is as asked for.
    """

    def __init__(self, scenario: Scenario, deployment: Deployment) -> None:
        sources, work = scenario.sources, deployment.work
        self._rng = np.random.default_rng([scenario.seed, 2])
        self._interval = scenario.interval
        self._profile = sorted((change.at, change.factor) for change in sources.profile)
        self._fragment = np.repeat(np.arange(work.query.size), work.sources)
        self._first = np.cumsum(work.sources) - work.sources
        self.batch = max(1, round(sources.rate / sources.batches))
        """How many tuples a source sends at once."""
        self._batches = sources.rate / self.batch * scenario.interval
        self._progress: Floats = self._rng.random(self._fragment.size)
        self._burst = sources.burst
        if self._burst is not None:
            if self._burst.keep_mean:
                self._batches /= 1 + self._burst.share * (self._burst.factor - 1)
            self._bursting: Bools = self._rng.random(self._fragment.size) < self._burst.share
        query = work.query
        self._start, self._until = work.start[query], work.until[query]

    def of_step(self, until: float) -> Ints:
        """Counts the tuples of each fragment in the interval that ends at this time."""
        speed = self._batches * self._factor(until - self._interval)
        moved = self._progress + (speed if self._burst is None else speed * self._bursts())
        whole = np.floor(moved)
        self._progress = moved - whole
        sent = np.add.reduceat(whole, self._first).astype(np.int64) * self.batch
        began = until - self._interval
        return np.where((self._start <= began) & (began < self._until), sent, 0)

    def _factor(self, now: float) -> float:
        current = 1.0
        for at, factor in self._profile:
            if at <= now:
                current = factor
        return current

    def _bursts(self) -> Floats:
        assert self._burst is not None
        leave = min(self._interval / self._burst.length, 1.0)
        enter = min(leave * self._burst.share / (1 - self._burst.share), 1.0)
        turn = self._rng.random(self._bursting.size) < np.where(self._bursting, leave, enter)
        self._bursting = self._bursting ^ turn
        return np.where(self._bursting, self._burst.factor, 1.0)
