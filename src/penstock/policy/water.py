"""Filling vessels to a common level: the arithmetic that fluid policies share.

Each query is a vessel. Its strata are stacked in descending SIC per unit of cost, each a layer
that is so high (in what the policy equalises) and costs so much to fill. ``raise_together``
pours a capacity into all vessels at once, always into the lowest, and is exact.

A large demand is cut into groups of queries that fit into a processor's cache, so that a million
strata take ten times as long as a hundred thousand and not twenty. Sums of products are written
out instead of ``a @ b``: for long vectors the latter wakes a pool of threads, which on a busy
machine costs more than all the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.demand import Demand
from penstock.core.types import Floats, Ints

GROUP_STRATA = 1 << 15
"""A group has about so many strata; a dozen columns of it fit into a second-level cache."""
MOST_SORTED_LAYERS = 4096
"""Up to so many layers are simply sorted."""

Fill = list[Floats]
"""How full each layer of each group is, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The strata of some queries in the order in which they are served.

    Strata of one query with the same SIC per unit of cost form one layer and share a rate:
    nothing says which of them to prefer, and so none is starved. SIC per cost is compared in
    single precision (with a million queries and a million strata, in the first five digits),
    which makes ties robust and costs as little of the optimum.
    """

    order: Ints
    """Strata of the demand, in the order of their layers."""
    first: Ints
    """Where in ``order`` each layer begins."""
    query: Ints
    sic: Floats
    """Of a whole layer."""
    cost: Floats
    """Of a whole layer."""
    lowest: Ints
    """The lowest layer of each query that has one."""

    @classmethod
    def of(cls, demand: Demand) -> "Layers":
        order, rank = _order(demand)
        first = _starts(rank)
        query = demand.query[order[first]]
        return cls(
            order=order,
            first=first,
            query=query,
            sic=_sums((demand.tuples * demand.sic)[order], first),
            cost=_sums((demand.tuples * demand.cost)[order], first),
            lowest=_starts(query),
        )

    def groups(self) -> "list[Layers]":
        """Answers the layers cut between queries into pieces that fit into a cache."""
        if self.query.size <= GROUP_STRATA:
            return [self]
        cuts = self.lowest[np.flatnonzero(np.diff(self.lowest // GROUP_STRATA, prepend=-1))]
        pieces = []
        for start, end in pairwise([*cuts.tolist(), self.query.size]):
            begin = self.first[start]
            stop = self.first[end] if end < self.query.size else self.order.size
            lowest = self.lowest[slice(*np.searchsorted(self.lowest, (start, end)))]
            pieces.append(
                Layers(
                    order=self.order[begin:stop],
                    first=self.first[start:end] - begin,
                    query=self.query[start:end],
                    sic=self.sic[start:end],
                    cost=self.cost[start:end],
                    lowest=lowest - start,
                )
            )
        return pieces

    def bottom(self, height: Floats, rise: Floats) -> Floats:
        """Answers where each layer begins: its query's height, and the layers under it."""
        under = np.cumsum(rise)
        under -= rise
        queries = self.query[self.lowest]
        start = height[queries] - under[self.lowest]
        under += np.repeat(start, _lengths(self.lowest, under.size))
        return under

    def filled_at(self, start: Floats, level: Floats) -> Floats:
        """Answers how full each layer is when its query's SIC rose from ``start`` to ``level``."""
        wanted = level[self.query] - self.bottom(start, self.sic)
        nothing = np.zeros(wanted.size)  # a layer without SIC takes nobody anywhere
        part = np.divide(wanted, self.sic, out=nothing, where=self.sic > 0)
        return np.clip(part, 0.0, 1.0)

    def write_rates(self, filled: Floats, rates: Floats) -> None:
        """Writes each stratum's rate, that of its layer, into ``rates``."""
        if self.first.size < self.order.size:
            filled = np.repeat(filled, _lengths(self.first, self.order.size))
        rates[self.order] = filled


@dataclass(frozen=True, slots=True)
class Vessels:
    """All layers of a demand, in groups that have no query in common."""

    groups: list[Layers]
    strata: int
    queries: int

    @classmethod
    def of(cls, demand: Demand) -> "Vessels":
        return cls(Layers.of(demand).groups(), len(demand), len(demand.queries))

    def full(self) -> Fill:
        return [np.ones(layers.cost.size) for layers in self.groups]

    def free(self) -> Fill:
        """Answers the layers that cost nothing as full: they come before anything else."""
        return [(layers.cost <= 0.0).astype(np.float64) for layers in self.groups]

    def filled_at(self, start: Floats, level: Floats) -> Fill:
        return [layers.filled_at(start, level) for layers in self.groups]

    def spent(self, filled: Fill) -> float:
        return sum(
            float((layers.cost * part).sum())
            for layers, part in zip(self.groups, filled, strict=True)
        )

    def by_query(self, amount: str, filled: Fill) -> Floats:
        """Answers the SIC or the cost (by name) of what is filled, for each query."""
        total = np.zeros(self.queries)
        for layers, part in zip(self.groups, filled, strict=True):
            if part.any():
                values = getattr(layers, amount) * part
                total += np.bincount(layers.query, values, self.queries)
        return total

    def rates(self, filled: Fill) -> Floats:
        rates = np.empty(self.strata)
        for layers, part in zip(self.groups, filled, strict=True):
            layers.write_rates(part, rates)
        return rates

    def raise_together(
        self,
        filled: Fill,
        limit: Fill,
        amount: str,
        height: Floats,
        weight: Floats,
        capacity: float,
    ) -> Fill:
        """Fills the layers from ``filled`` up to ``limit`` such that ``height / weight`` of the
        lowest queries rises together, until the capacity is spent.

        ``amount`` names what a whole layer adds to its query's height: "sic" or "cost".
        """
        left = [np.maximum(to, part) - part for to, part in zip(limit, filled, strict=True)]
        if self.spent(left) <= capacity:
            return [part + more for part, more in zip(filled, left, strict=True)]
        even = bool((weight == 1.0).all())
        ramps = []
        for layers, more in zip(self.groups, left, strict=True):
            rise = getattr(layers, amount) * more
            low = layers.bottom(height, rise)
            if not even:
                scale = 1.0 / weight[layers.query]
                rise *= scale
                low *= scale
            ramps.append(ramp(low, rise, layers.cost * more))
        level = water_level(ramps, max(capacity, 0.0))
        for i, (low, high, _) in enumerate(ramps):
            left[i] *= _share(level, low, high)
            left[i] += filled[i]
        return left


Ramp = tuple[Floats, Floats, Floats]
"""Where layers begin, where they end, and what they cost on the way, per unit of level."""


def ramp(low: Floats, rise: Floats, cost: Floats) -> Ramp:
    """Answers a ramp: a layer takes its cost evenly as it rises, and nothing if it does not."""
    high = low + rise
    with np.errstate(over="ignore"):
        slope = np.divide(cost, high - low, out=np.zeros(low.size), where=high > low)
    return low, high, np.minimum(slope, 1e200, out=slope)


def water_level(ramps: Sequence[Ramp], capacity: float) -> float:
    """Answers the level at which layers, in groups, have taken just the capacity.

    The cost is piecewise linear in the level, so the answer is exact once it is
    known between which two ends of layers it lies. Sorting all ends would take longer than
    everything else here; instead, as Floyd and Rivest select a median, a sample brackets the
    level, and only the few layers that begin or end inside the bracket go on to the next round.
    O(n).
    """
    # layers that were left out cost `fixed + through · level` inside the bracket
    fixed = through = 0.0
    bottom, top = -np.inf, np.inf
    while (size := sum(ramp[0].size for ramp in ramps)) > MOST_SORTED_LAYERS:
        step = size // (MOST_SORTED_LAYERS // 4)
        sample = _joined([(a[::step], b[::step], c[::step]) for a, b, c in ramps])
        guess = _level_by_sorting(*sample, capacity / step, fixed / step, through / step)
        ends = np.sort(np.concatenate(sample[:2]))
        margin, place = 2 * int(np.sqrt(ends.size)), int(np.searchsorted(ends, guess))
        before, at_bottom = bottom, 0.0
        for rank in (place - margin, place + margin):
            pivot = float(ends[min(max(rank, 0), ends.size - 1)])
            if bottom < pivot < top:
                taken = fixed + through * pivot + sum(_taken(pivot, *ramp) for ramp in ramps)
                if taken <= capacity:
                    bottom, at_bottom = pivot, taken
                else:
                    top = pivot
        if bottom == before:
            break  # no end below the level is left to cut away
        inside = []
        for a, b, slope in ramps:
            some = np.flatnonzero(((a > bottom) & (a < top)) | ((b > bottom) & (b < top)))
            inside.append((a[some], b[some], slope[some]))
            through += float((slope * ((a <= bottom) & (b >= top))).sum())
        ramps = [_joined(inside)]
        fixed = at_bottom - through * bottom - _taken(bottom, *ramps[0])
    level = _level_by_sorting(*_joined(ramps), capacity, fixed, through)
    return float(np.clip(level, bottom, top))


def _joined(ramps: Sequence[Ramp]) -> Ramp:
    if len(ramps) == 1:
        return ramps[0]
    low, high, slope = (np.concatenate(columns) for columns in zip(*ramps, strict=True))
    return low, high, slope


def _taken(level: float, low: Floats, high: Floats, slope: Floats) -> float:
    reached = np.clip(level, low, high)
    reached -= low
    reached *= slope
    return float(reached.sum())


def _share(level: float, low: Floats, high: Floats) -> Floats:
    """Answers how full each layer is at a level."""
    with np.errstate(over="ignore"):
        part = np.divide(level - low, high - low, out=np.zeros(low.size), where=high > low)
    return np.clip(part, 0.0, 1.0, out=part)


def _level_by_sorting(
    low: Floats, high: Floats, slope: Floats, capacity: float, fixed: float, through: float
) -> float:
    """Solves ``fixed + through · level + Σ slope · (clip(level, low, high) - low) = capacity``."""
    if not low.size:
        return (capacity - fixed) / through if through > 0 else 0.0
    ends = np.concatenate((low, high))
    order = np.argsort(ends)
    ends = ends[order]
    slopes = np.cumsum(np.concatenate((slope, -slope))[order]) + through
    taken = fixed + through * ends[0]
    taken += np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(ends))))
    place = int(np.searchsorted(taken, capacity, side="right")) - 1
    inner = 0 <= place < ends.size - 1
    steep = float(slopes[place]) if inner else through
    nearest = max(place, 0)
    if steep <= 0:
        return float(ends[nearest])
    return float(ends[nearest] + (capacity - taken[nearest]) / steep)


def _order(demand: Demand) -> tuple[Ints, npt.NDArray[np.uint64]]:
    """Answers strata by query and descending SIC per unit of cost, and their ranks.

    Ranks are equal where both are. Query, value and place are packed into one integer each and
    sorted by value, which is four times as fast as an argsort.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = (demand.sic / demand.cost).astype(np.float32)
    # bits of a positive float sort like the float; inverted, the best comes first
    bits = np.abs(ratio, out=ratio).view(np.uint32)
    np.subtract(bits.max(initial=0), bits, out=bits)
    for_place = max(len(demand) - 1, 0).bit_length()
    for_value = 64 - for_place - (len(demand.queries) - 1).bit_length()
    excess = max(int(bits.max(initial=0)).bit_length() - for_value, 0)
    key = demand.query.astype(np.uint64)
    key <<= np.uint64(for_value)
    key |= bits >> np.uint32(excess)
    key <<= np.uint64(for_place)
    key |= np.arange(len(demand), dtype=np.uint64)
    key.sort()
    order = (key & np.uint64((1 << for_place) - 1)).astype(np.int64)
    key >>= np.uint64(for_place)
    return order, key


def _starts(values: npt.NDArray[Any]) -> Ints:
    """Answers where a run of equal values begins."""
    if not values.size:
        return np.empty(0, dtype=np.int64)
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


def _lengths(starts: Ints, end: int) -> Ints:
    """Answers how long runs are that begin there.

    NumPy's own ``diff(append=...)`` takes five times as long.
    """
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = end - starts[-1:]
    return lengths


def _sums(values: Floats, first: Ints) -> Floats:
    if first.size == values.size:
        return values
    return np.asarray(np.add.reduceat(values, first), dtype=np.float64)
