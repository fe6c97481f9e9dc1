"""Simulates many runs at once: all of them advance together, one numpy step a tuple.

``tests.reference.las_simulation`` says what a run is; this says the same for hundreds of runs in
the time that it takes for two or three. The tests compare the two, decision by decision.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.core.types import Bools, Floats
from penstock.errors import PenstockError
from penstock.lab.las.streams import Items, ParallelRuns, StreamPhase


class FleetShedder(Protocol):
    """Is the shedders of all runs, and what their operators do on the way."""

    def begin(self, number: int, phase: StreamPhase) -> None:
        """Begins a phase that is in force from tuple ``number`` on."""

    def keeps(self, number: int, now: Floats, items: Items, costs: Floats) -> Bools:
        """Returns which runs keep their tuple; only Full Knowledge may look at ``costs``."""

    def executed(self, number: int, kept: Bools, wait: Floats, costs: Floats, done: Floats) -> None:
        """Takes note of tuples that were kept.

        It gets how long they wait (0 for those that were dropped), what they cost, and when they
        will be done.
        """


@dataclass(frozen=True)
class Outcomes:
    """Holds sums over jumping windows, a row a window and a column a run."""

    waits: Floats
    kept: Floats
    window: int
    highest: Floats
    """The most that a run's running average ever was."""

    @property
    def latency(self) -> Floats:
        """Returns Q̄ of each run."""
        return np.asarray(self.waits.sum(axis=0) / np.maximum(self.kept.sum(axis=0), 1))

    @property
    def dropped(self) -> Floats:
        """Returns d of each run."""
        return np.asarray(self.kept.shape[0] * self.window - self.kept.sum(axis=0))

    @property
    def dropped_share(self) -> Floats:
        """Returns α of each run."""
        return np.asarray(self.dropped / (self.kept.shape[0] * self.window))


def simulate_fleet(
    runs: ParallelRuns, shedder: FleetShedder, window: int | None = None
) -> Outcomes:
    """Simulates all runs from beginning to end; ``window`` divides their length."""
    tuples, width = runs.items.shape
    window = window or tuples
    if tuples % window:
        raise PenstockError(f"window: {tuples} tuples are no whole number of windows of {window}")
    waits = np.zeros((tuples // window, width))
    kept_tuples = np.zeros_like(waits)
    free, now, total, count = (np.zeros(width) for _ in range(4))
    highest = np.zeros(width)
    starts = {phase.start: phase for phase in runs.phases}
    base = np.arange(width) * runs.phases[0].costs.shape[1]
    for number in range(tuples):
        if number in starts:
            phase = starts[number]
            table, gap = phase.costs.reshape(-1), phase.gap
            shedder.begin(number, phase)
        items = runs.items[number]
        costs = table[base + items]
        kept = shedder.keeps(number, now, items, costs)
        start = np.maximum(free, now)
        wait = (start - now) * kept
        free = np.where(kept, start + costs, free)
        shedder.executed(number, kept, wait, costs, free)
        waits[number // window] += wait
        kept_tuples[number // window] += kept
        total += wait
        count += kept
        np.maximum(highest, total / np.maximum(count, 1.0), out=highest)
        now = now + gap
    return Outcomes(waits, kept_tuples, window, highest)


class BaseLineFleet:
    """Drops a fixed share of every run at random."""

    def __init__(self, runs: ParallelRuns) -> None:
        size = runs.items.shape[0]
        draws = {seed: np.random.default_rng(seed).random(size) for seed in set(runs.seed.tolist())}
        pairs = zip(runs.seed.tolist(), runs.share.tolist(), strict=True)
        self._keeps = np.stack([draws[seed] >= share for seed, share in pairs], axis=1)

    def begin(self, number: int, phase: StreamPhase) -> None:
        """Does nothing, since phases change nothing for Base Line."""

    def keeps(self, number: int, now: Floats, items: Items, costs: Floats) -> Bools:
        """Returns which runs keep their tuple."""
        del now, items, costs
        return np.asarray(self._keeps[number])

    def executed(self, number: int, kept: Bools, wait: Floats, costs: Floats, done: Floats) -> None:
        """Does nothing, since Base Line learns nothing."""


class ForesightFleet:
    """Foresees Ĉ and keeps AVG(τ) in every run; as it stands, it is Full Knowledge."""

    def __init__(self, runs: ParallelRuns) -> None:
        self.threshold = runs.threshold
        self.total, self.sum, self.count = (np.zeros(runs.width) for _ in range(3))
        self.idle = np.zeros(runs.width)

    def begin(self, number: int, phase: StreamPhase) -> None:
        """Does nothing, since costs are told with each tuple."""

    def estimates(self, items: Items, costs: Floats) -> Floats:
        """Returns what tuples will cost."""
        del items
        return costs

    def keeps(self, number: int, now: Floats, items: Items, costs: Floats) -> Bools:
        """Returns which runs keep their tuple."""
        del number
        start = np.maximum(self.total, now)
        wait = start - now
        keeps = self.sum + wait <= self.threshold * (self.count + 1.0)
        self.sum += wait * keeps
        self.count += keeps
        self.idle += (start - self.total) * keeps
        self.total = np.where(keeps, start + self.estimates(items, costs), self.total)
        return np.asarray(keeps)

    def executed(self, number: int, kept: Bools, wait: Floats, costs: Floats, done: Floats) -> None:
        """Does nothing, since costs are known from the start."""


FullKnowledgeFleet = ForesightFleet


class StrawManFleet(ForesightFleet):
    """Takes every tuple for an average one."""

    def __init__(self, runs: ParallelRuns) -> None:
        super().__init__(runs)
        self.mean = runs.mean

    def estimates(self, items: Items, costs: Floats) -> Floats:
        """Returns the mean cost of each run."""
        del items, costs
        return self.mean
