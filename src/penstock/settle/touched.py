"""Says which windows lack tuples, how badly, and in which batches all their tuples are."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from penstock.settle.past_query import PastQuery
from penstock.settle.survey import Survey
from penstock.settle.window_shape import MICROS, WindowShape

Gap = tuple[float, float]
"""A stretch of event time, from and to, of which tuples are lost."""
SLACK = 1000
"""Microseconds by which Spark may have rounded the event times that it tells of a batch."""


@dataclass
class Touched:
    """Holds the windows into which tuples that were shed would have gone, by their starts."""

    shape: WindowShape
    tuples: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """That came in batches that shed."""
    shed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    batches: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Those that shed, and have tuples of the window."""

    @classmethod
    def of(cls, survey: Survey) -> "Touched":
        """Adds up what was surveyed."""
        found = cls(survey.shape)
        for batch, buckets in survey.found.items():
            for bucket, (arrived, shed) in buckets.items():
                if bucket is not None:
                    for start in survey.shape.starts_of(bucket):
                        found.tuples[start] += arrived
                        found.shed[start] += shed
                        found.batches[start].add(batch)
        return found

    def windows(self, since: float, until: float, others: Iterable[int] = ()) -> set[int]:
        """The windows of a stretch of time that lack tuples, or are others, by their starts."""
        found = {start for start, shed in self.shed.items() if shed}.union(others)
        end = until - self.shape.length
        return {start for start in found if since <= start <= end}

    def kept(self, start: int) -> float:
        """The share of a window's tuples that was admitted, in the batches that shed."""
        return 1.0 - self.shed[start] / self.tuples[start]

    def blocked(self, start: int, gaps: Iterable[Gap]) -> bool:
        """Whether tuples of a window may be among those that are lost."""
        end = start + self.shape.length
        return any(until >= start and since < end for since, until in gaps)


class Reach:
    """Finds the batches in which tuples of a window may be."""

    def __init__(self, past: PastQuery, touched: Touched) -> None:
        self._touched = touched
        whole = [n for n in past.past if past.arrived[n] and not past.shed[n]]
        timed = [n for n in whole if past.past[n].timed and past.past[n].oldest is not None]
        self._untimed = [n for n in whole if not past.past[n].timed]
        self._batches = np.array(timed, dtype=np.int64)
        self._oldest = np.array([past.past[n].oldest for n in timed], dtype=np.float64) * MICROS
        self._newest = np.array([past.past[n].newest for n in timed], dtype=np.float64) * MICROS

    def of(self, start: int) -> set[int]:
        """Those that shed were looked at; of the others Spark told the times that they hold."""
        end = start + self._touched.shape.length
        inside = (self._oldest - SLACK < end) & (self._newest + SLACK >= start)
        found: list[int] = self._batches[inside].tolist()
        return {*found, *self._untimed, *self._touched.batches[start]}
