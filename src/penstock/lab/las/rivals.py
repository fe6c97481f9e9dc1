"""Those that LAS is compared with (section V-A)."""

from collections.abc import Callable

import numpy as np

from penstock.lab.las.checks import Check
from penstock.lab.las.protocol_messages import Message, Request
from penstock.lab.las.ranges import at_least
from penstock.lab.las.shedder import Foresight


class BaseLine:
    """Drops a given share of the tuples at random, whatever they cost."""

    def __init__(self, share: float, rng: np.random.Generator) -> None:
        self.share, self.rng = at_least(0.0, "share", share, most=1.0), rng

    def sheds(self, key: int, now: float) -> bool:
        """Says whether a tuple is dropped."""
        del key, now
        return bool(self.rng.random() < self.share)

    def request(self) -> Request | None:
        """Returns no request."""
        return None

    def receive(self, message: Message) -> None:
        """Does nothing, since Base Line learns nothing."""


class StrawManShedder(Foresight):
    """Takes every tuple for an average one."""

    def __init__(self, check: Check, mean: float) -> None:
        super().__init__(check)
        self.mean = at_least(0.0, "mean", mean)

    def cost(self, key: int, now: float) -> float:
        """Returns the mean cost."""
        del key, now
        return self.mean


class FullKnowledge(Foresight):
    """Knows what every tuple costs at any time, so that what it foresees comes true."""

    def __init__(self, check: Check, cost: Callable[[int, float], float]) -> None:
        super().__init__(check)
        self._cost = cost

    def cost(self, key: int, now: float) -> float:
        """Returns the true cost."""
        return self._cost(key, now)
