"""Estimates of capacity that break a promise; a test of the promise must notice each."""

from penstock.core.capacity import Capacity
from penstock.core.state import StreamState
from penstock.core.types import Upcoming


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
