"""Counts durations by size, as Prometheus' histograms do, so that sites can be added up."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import numpy as np

from penstock.core.types import Batch
from penstock.metrics.known_names import KnownNames

BATCH_BOUNDS_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0)
AGE_BOUNDS_SECONDS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 60.0, 300.0)
PLAN_BOUNDS_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
MOST_STREAMS = 200
"""Streams that have a histogram of their own; the others share one."""


class Buckets:
    """Counts values up to each of some bounds.

    >>> buckets = Buckets((1.0, 2.0))
    >>> buckets.add([0.5, 1.0, 1.5, 9.0])
    >>> buckets.cumulative(), buckets.total
    ([('1.0', 2.0), ('2.0', 3.0), ('+Inf', 4.0)], 12.0)
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = np.zeros(len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def add(self, values: Sequence[float], each: float = 1.0) -> None:
        """Counts some values, each of which stands for so many."""
        places = np.searchsorted(self._bounds, values)
        self._counts += np.bincount(places, minlength=self._counts.size) * each
        self.total += float(np.sum(values)) * each

    def cumulative(self) -> list[tuple[str, float]]:
        """Answers how many values were no larger than each bound."""
        counts = np.cumsum(self._counts).tolist()
        return list(zip([*map(str, self._bounds), "+Inf"], counts, strict=True))


class Histogram:
    """Keeps buckets for each stream, up to a number of streams."""

    def __init__(self, name: str, words: str, bounds: Sequence[float]) -> None:
        self.name, self.words, self._bounds = name, words, bounds
        self._names = KnownNames(MOST_STREAMS)
        self._buckets: dict[str, Buckets] = {}
        self._lock = Lock()

    def add(self, stream: str, values: Sequence[float], each: float = 1.0) -> None:
        """Counts some values of a stream."""
        with self._lock:
            name = self._names.label(stream)
            self._buckets.setdefault(name, Buckets(self._bounds)).add(values, each)

    def each(self, tell: Callable[[str, list[tuple[str, float]], float], object]) -> None:
        """Tells of each stream its cumulative counts, and the sum of its values."""
        with self._lock:
            found = {name: (b.cumulative(), b.total) for name, b in self._buckets.items()}
        for name, (counts, total) in found.items():
            tell(name, counts, total)


class Distributions:
    """Is the meter of a site whose metrics are collected."""

    def __init__(self) -> None:
        self._batches = Histogram(
            "penstock_batch_duration_seconds", "How long batches took.", BATCH_BOUNDS_SECONDS
        )
        self._ages = Histogram(
            "penstock_tuple_latency_seconds",
            "From a tuple's arrival to the commit of its batch, of admitted tuples, where the "
            "stream tells arrivals.",
            AGE_BOUNDS_SECONDS,
        )
        self._plans = Histogram(
            "penstock_plan_duration_seconds",
            "How long batches waited for their plan.",
            PLAN_BOUNDS_SECONDS,
        )

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The histograms, by name."""
        return {each.name: each for each in (self._batches, self._ages, self._plans)}

    def counted(self, batch: Batch, ages: Sequence[float], measured: int) -> None:
        """Counts a batch, and its tuples by their ages."""
        self._batches.add(batch.stream, [batch.seconds])
        if len(ages):
            self._ages.add(batch.stream, ages, measured / len(ages))

    def planned(self, stream: str, seconds: float) -> None:
        """Counts the making of a plan."""
        self._plans.add(stream, [seconds])
