"""Estimates of capacity and admissions that break a promise; its test must notice each."""

import numpy as np

from penstock.core.capacity import Capacity
from penstock.core.state import StreamState
from penstock.core.types import Floats, Upcoming
from penstock.guard.admission import Admission
from penstock.guard.hashes import Words


class AdmitsAll(Capacity):
    """Says that there is time for everything."""

    def spare(
        self, name: str, stream: StreamState, expected: float, starting: Upcoming | None
    ) -> float:
        del name, stream, expected, starting
        return 1e9


class IgnoresTheClock(Capacity):
    """Spends ten budgets on every batch, whatever reading takes and however late it is."""

    def spare(
        self, name: str, stream: StreamState, expected: float, starting: Upcoming | None
    ) -> float:
        del stream, expected, starting
        return 10 * self.settings.budget_of(name)


class NeverSheds(Admission):
    """Admits every tuple, however long it has waited."""

    def _admits_all(self, waits: Floats) -> bool:
        del waits
        return True


class TakesCostsForTheAverage(Admission):
    """Takes every tuple for as dear as the average one."""

    def _learnt_costs(self, keys: Words) -> Floats:
        return np.full(keys.size, self.sketch.mean)
