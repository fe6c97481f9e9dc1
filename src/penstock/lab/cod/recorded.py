"""A stream of windows in arrays: what the trials and the experiments run on."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.core.types import Bools, Floats, Ints


@dataclass(frozen=True)
class WindowedStream:
    """Tuples in order of arrival. ``time`` is in seconds and ``length`` is a window's."""

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
        return int(self.group.max(initial=-1)) + 1

    def windows(self) -> Iterator[slice]:
        """The tuples of each window that is whole, or as whole as the stream; time ascends."""
        step = self.slide or self.length
        first = np.floor(self.time[0] / step) * step
        while first <= self.time[-1]:
            edges = np.searchsorted(self.time, (first, first + self.length))
            if edges[1] > edges[0]:
                yield slice(*edges.tolist())
            first += step

    def batches(self, a_window: int) -> Iterator[slice]:
        """About so many batches a pane, of equal size, none across the end of one."""
        pane = np.floor(self.time / (self.slide or self.length))
        starts = np.flatnonzero(np.diff(pane, prepend=-np.inf, append=np.inf))
        for first, end in pairwise(starts.tolist()):
            edges = np.unique(np.linspace(first, end, a_window + 1).round().astype(np.int64))
            yield from (slice(*ends) for ends in pairwise(edges.tolist()))


@dataclass(frozen=True)
class AdmittedTuples:
    """What shedding left of a stream, and what each tuple that was kept stands for."""

    kept: Bools
    weight: Floats

    @property
    def volume(self) -> float:
        return float(self.kept.mean())
