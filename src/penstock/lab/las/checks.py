"""When is a queuing latency too much? The paper's CHECK, in three forms.

``refuses(q)`` tries the tuple first: where it would break the constraint the tuple is dropped and
nothing changes, else it is counted. What is no number is refused. (Listing III.2 looks at the
average *before* the tuple. A drop leaves that as it is, so a shedder that drops once drops for
ever; the text of section III-C, which tries the tuple, is what works.)
"""

from collections import deque
from typing import Protocol

from penstock.lab.las.ranges import at_least


class Check(Protocol):
    """Decides by a foreseen wait whether a tuple is dropped."""

    def refuses(self, latency: float) -> bool:
        """Says whether a tuple with this wait is dropped."""


class Absolute:
    """Is ABS(τ): no tuple waits longer than τ."""

    def __init__(self, threshold: float) -> None:
        self.threshold = at_least(0.0, "threshold", threshold)

    def refuses(self, latency: float) -> bool:
        """Says whether the wait is longer than τ."""
        return not latency <= self.threshold


class Average:
    """Is AVG(τ): the average over all tuples so far is at most τ."""

    def __init__(self, threshold: float) -> None:
        self.threshold = at_least(0.0, "threshold", threshold)
        self.total, self.tuples = 0.0, 0

    def refuses(self, latency: float) -> bool:
        """Says whether the average would be above τ."""
        if not self.total + latency <= self.threshold * (self.tuples + 1):
            return True
        self.total += latency
        self.tuples += 1
        return False


class SlidingAverage:
    """Keeps the average over the last ``window`` kept tuples at most τ.

    It cannot stick: a tuple that does not wait makes no average worse, and while tuples are dropped
    the queue drains until one does not.
    """

    def __init__(self, threshold: float, window: int = 4096) -> None:
        self.threshold = at_least(0.0, "threshold", threshold)
        self.kept: deque[float] = deque(maxlen=int(at_least(1, "window", window)))
        self.total = 0.0

    def refuses(self, latency: float) -> bool:
        """Says whether the average of the last tuples would be above τ."""
        full = len(self.kept) == self.kept.maxlen
        total = self.total + latency - (self.kept[0] if full else 0.0)
        tuples = len(self.kept) + (not full)
        if not total <= self.threshold * tuples:
            return True
        self.total = total
        self.kept.append(latency)
        return False
