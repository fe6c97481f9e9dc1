"""Count windows: which of them a tuple falls into, when tuples stand for others.

A window of the last n rows counts what *arrived*. A tuple that was admitted at a rate r stands for
1/r tuples, so it takes as many places, and the window closes when the weights have come to n. Its
tuples are then a sample of the n that arrived: a mean over them is what the whole window's mean
would be, and its SIC is the share of the n that was kept. To wait for n admitted tuples instead
would make windows longer the more is shed, and a burst would look like silence.

A tuple has the place in the middle of those that it takes. Nothing is drawn, so that a retry
decides alike (law 8), and without shedding the i-th tuple is in the windows of the i-th row.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.types import Floats, Ints

HALF_A_TUPLE = 0.5
"""A tuple stands for one at least, so that no tuple to come has a place before this."""


@dataclass(frozen=True)
class CountWindows:
    """Windows of so many rows, one every ``slide`` rows; numbered from 0, the first is full.

    >>> windows = CountWindows(rows=4, slide=2)
    >>> [each.tolist() for each in windows.around(np.array([0.5, 3.5, 4.5]))]
    [[0, 0, 1], [0, 1, 2]]
    >>> windows.closed(came=5.0), windows.closed(came=6.0)
    (1, 2)
    """

    rows: int
    slide: int

    def around(self, place: Floats) -> tuple[Ints, Ints]:
        """Answers the first and the last window that each place is in."""
        last = np.floor(place / self.slide).astype(np.int64)
        first = np.floor((place - self.rows) / self.slide).astype(np.int64) + 1
        return np.maximum(first, 0), last

    def closed(self, came: float) -> int:
        """Answers how many windows are full when the weights so far have come to ``came``."""
        return max(int((came + HALF_A_TUPLE - self.rows) // self.slide) + 1, 0)


def places(came: float, weight: Floats) -> Floats:
    """Answers the place of each tuple behind the weights that came before, in their order.

    >>> places(10.0, np.array([1.0, 4.0, 1.0])).tolist()
    [10.5, 13.0, 15.5]
    """
    return np.asarray(came + np.cumsum(weight) - weight / 2.0)


def copies(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Answers a row for each window of each tuple: which tuple it is, and which window.

    >>> tuple(each.tolist() for each in copies(np.array([0, 2]), np.array([1, 2])))
    ([0, 0, 1], [0, 1, 2])
    """
    times = np.maximum(last - first + 1, 0)
    tuples = np.repeat(np.arange(first.size), times)
    before = np.cumsum(times) - times
    return tuples, np.arange(times.sum()) - before[tuples] + first[tuples]
