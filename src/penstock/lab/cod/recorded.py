"""Holds a stream of windows in arrays, which the trials and the experiments run on."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.core.types import Bools, Floats, Ints


@dataclass(frozen=True)
class WindowedStream:
    """Holds tuples in order of arrival; ``time`` and a window's ``length`` are in seconds."""

    time: Floats
    group: Ints
    value: Floats
    length: float
    slide: float | None = None
    source: Ints | None = None
    """Of each tuple, where there are several that are joined."""

    def __len__(self) -> int:
        return self.time.size

    @property
    def groups(self) -> int:
        """Returns how many groups there are."""
        return int(self.group.max(initial=-1)) + 1

    def windows(self) -> Iterator[slice]:
        """Yields the tuples of each window that has some; time ascends."""
        step = self.slide or self.length
        first = np.floor(self.time[0] / step) * step
        while first <= self.time[-1]:
            edges = np.searchsorted(self.time, (first, first + self.length))
            if edges[1] > edges[0]:
                yield slice(*edges.tolist())
            first += step

    def batches(self, a_window: int) -> Iterator[slice]:
        """Yields about so many batches a pane, of equal size, none across its end."""
        pane = np.floor(self.time / (self.slide or self.length))
        starts = np.flatnonzero(np.diff(pane, prepend=-np.inf, append=np.inf))
        for first, end in pairwise(starts.tolist()):
            edges = np.unique(np.linspace(first, end, a_window + 1).round().astype(np.int64))
            yield from (slice(*ends) for ends in pairwise(edges.tolist()))


@dataclass(frozen=True)
class AdmittedTuples:
    """Holds what shedding left of a stream, and how many tuples each stands for."""

    kept: Bools
    weight: Floats

    @property
    def volume(self) -> float:
        """Returns the share of tuples that was kept."""
        return float(self.kept.mean())
