"""Computes the exact answer from the stream itself, and how far from it the results are.

Row n of the stream is row n of a pool that repeats, so the exact count and sum of every key over
any range of offsets are whole rounds of the pool and a rest. A window is a range of offsets,
because tuples arrive in their order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.cli.demo.workload import GENERATOR, SEED
from penstock.core.types import Bools, Floats, Ints
from penstock.sources.generators import BLOCK_ROWS, POOL_BLOCKS, blocks_between, generator
from penstock.sources.schedule import SECOND, Schedule

TRUSTED_TUPLES = 10
"""From this many tuples on, the interval of a result, a normal approximation, is trusted."""
RELATIVE_ROUNDING = 1e-9
"""The same numbers in another order have a sum that differs by about this share."""


class Pool:
    """Holds the tuples that the stream repeats: a key and a value each."""

    def __init__(self, keys: list[str], values: Floats) -> None:
        names, self._key = np.unique(np.array(keys), return_inverse=True)
        self.place = {str(name): place for place, name in enumerate(names)}
        self._value = values

    @classmethod
    def of_demo(cls) -> "Pool":
        """Makes the pool of the demo's generator."""
        blocks = blocks_between(generator(GENERATOR, SEED, ()), 0, BLOCK_ROWS * POOL_BLOCKS)
        rows = [
            json.loads(text) for block in blocks for text in block.column("payload").to_pylist()
        ]
        return cls([row["key"] for row in rows], np.array([row["value"] for row in rows]))

    def between(self, first: int, stop: int) -> tuple[Ints, Floats]:
        """Returns the count and the sum of each key over the rows [first, stop)."""
        rounds, rest = divmod(stop - first, self._value.size)
        times = np.full(self._value.size, rounds, dtype=np.int64)
        times[np.arange(first, first + rest) % self._value.size] += 1
        counts = np.bincount(self._key, times, len(self.place)).astype(np.int64)
        sums: Floats = np.bincount(self._key, times * self._value, len(self.place)).astype(float)
        return counts, sums


@dataclass(frozen=True)
class Accuracy:
    """Compares results over all keys of the windows that were answered.

    Errors weigh a key by its tuples.
    """

    windows: int
    keys: int
    """Results: pairs of a window and a key that tuples arrived for."""
    keys_missed: float
    """Share of these without a result."""
    count_error: float
    mean_error: float
    count_error_per_key: float
    mean_error_per_key: float
    """The same two, every key alike: most have a handful of tuples."""
    count_covered: float
    mean_covered: float
    """Share of 95 % intervals that contain the exact answer, where enough tuples stand behind."""
    keys_with_enough: float
    sic: float
    """How complete the windows are that were answered, weighed by what arrived for them."""


def accuracy(results: Mapping[str, Any], schedule: Schedule, window: int, pool: Pool) -> Accuracy:
    """Compares results with the exact answer.

    `results` are arrays: start (microseconds), key, count, mean, their bounds, sic, tuples.
    """
    width = window * SECOND
    starts = np.unique(results["start"])
    places = np.array([pool.place[key] for key in results["key"]], dtype=np.int64)
    count, total = np.zeros(0, dtype=np.int64), np.zeros(0)
    slots = np.zeros(places.size, dtype=np.int64)
    for number, start in enumerate(starts):
        edges = schedule.offset_at(int(start) - 1), schedule.offset_at(int(start) + width - 1)
        counts, sums = pool.between(*edges)
        slots[results["start"] == start] = number * len(pool.place)
        count, total = np.append(count, counts), np.append(total, sums)
    return compare(results, slots + places, count, total, windows=starts.size)


def compare(
    results: Mapping[str, Any], slots: Ints, count: Ints, total: Floats, windows: int
) -> Accuracy:
    """Compares results with the truth; `slots` says which entry of `count` and `total` is whose."""
    arrived = count > 0
    true_count = count[slots].astype(np.float64)
    true_mean = total[slots] / true_count
    off = np.abs(results["count"] - true_count)
    missed = float(count.sum()) - true_count.sum()  # a key without a result counts as 0
    skew = np.abs(results["mean"] - true_mean) / np.abs(true_mean)
    enough = results["tuples"] >= TRUSTED_TUPLES
    return Accuracy(
        windows=windows,
        keys=int(arrived.sum()),
        keys_missed=1.0 - _ratio(slots.size, arrived.sum()),
        count_error=_ratio(off.sum() + missed, count.sum()),
        mean_error=_ratio((skew * true_count).sum(), true_count.sum()),
        count_error_per_key=_ratio(
            (off / true_count).sum() + arrived.sum() - slots.size, arrived.sum()
        ),
        mean_error_per_key=_ratio(skew.sum(), skew.size),
        count_covered=_covered(results, "count", true_count, enough),
        mean_covered=_covered(results, "mean", true_mean, enough),
        keys_with_enough=_ratio(enough.sum(), arrived.sum()),
        sic=_ratio((results["sic"] * true_count).sum(), count.sum()),
    )


def _covered(results: Mapping[str, Any], name: str, truth: Floats, among: Bools) -> float:
    slack = RELATIVE_ROUNDING * np.abs(truth)
    low, high = results[f"{name}_low"] - slack, results[f"{name}_high"] + slack
    inside = (low <= truth) & (truth <= high)
    return _ratio(inside[among].sum(), among.sum())


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0
