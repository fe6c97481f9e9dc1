"""Makes the streams of section V-A: skewed items, costs associated with them at random.

A ``ParallelRuns`` holds many runs side by side, so that all of them can advance together; one of
them alone is a ``ParallelRuns`` of width 1. Times are in milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.types import Floats, Ints
from penstock.sources.generators import draw_places, zipf_weights

ITEMS = 4096
STREAM_TUPLES = 32_768
DISTINCT_COSTS = 64
PHASE_TUPLES = 20_000
Items = npt.NDArray[np.int32]


@dataclass(frozen=True)
class StreamPhase:
    """Is a part of a stream, from tuple ``start`` on.

    Item j of run r costs ``costs[r, j]``, and the tuples of run r come ``gap[r]`` after each other.
    """

    start: int
    costs: Floats
    gap: Floats


@dataclass(frozen=True)
class ParallelRuns:
    """Holds many runs side by side."""

    items: Items
    """The item of tuple i in run r is ``items[i, r]``."""
    phases: Sequence[StreamPhase]
    threshold: Floats
    """τ of each run."""
    mean: Floats
    """W̄ of each run, which Straw-Man takes for every cost."""
    share: Floats
    """What Base Line drops of each run."""
    seed: Ints
    """Seeds the hash functions and what Base Line draws."""
    error: Floats
    """ε of each run."""
    warm: Items | None = None
    """Items by which the sketches are filled beforehand; None for a cold start."""

    @property
    def width(self) -> int:
        """Returns how many runs there are."""
        return int(self.items.shape[1])

    def one(self, run: int) -> "ParallelRuns":
        """Returns one of the runs, alone."""
        at = slice(run, run + 1)
        return ParallelRuns(
            items=self.items[:, at],
            phases=[StreamPhase(p.start, p.costs[at], p.gap[at]) for p in self.phases],
            threshold=self.threshold[at],
            mean=self.mean[at],
            share=self.share[at],
            seed=self.seed[at],
            error=self.error[at],
            warm=None if self.warm is None else self.warm[:, at],
        )


def popularity(skew: float, items: int = ITEMS) -> Floats:
    """Returns Zipf-α over the items; α = 0 is the uniform distribution."""
    weight = zipf_weights(items, skew)
    return np.asarray(weight / weight.sum())


def draw(rng: np.random.Generator, chances: Floats, size: int) -> Items:
    """Draws items at random, the first being the most frequent."""
    return draw_places(chances, size, rng).astype(np.int32)


def association(
    rng: np.random.Generator,
    most: float = 6.4,
    least: float = 0.1,
    items: int = ITEMS,
    distinct: int = DISTINCT_COSTS,
) -> Floats:
    """Gives so many costs at constant distance to items at random, each to as many.

    A single cost is the one in the middle.
    """
    values = np.linspace(least, most, distinct) if distinct > 1 else np.full(1, (least + most) / 2)
    return rng.permutation(np.resize(values, items))


@dataclass(frozen=True)
class Setting:
    """Is a point of a figure.

    ``under`` is the share by which the operator is under-provisioned: tuples come ``(1 - under) ·
    W̄`` after each other.
    """

    under: float = 0.25
    threshold: float = 6.4
    most: float = 6.4
    skew: float = 1.0
    error: float = 0.05
    distinct: int = DISTINCT_COSTS
    """w_n: how many different costs there are."""


def runs(
    settings: Sequence[Setting],
    associations: int,
    seeds: int,
    tuples: int = STREAM_TUPLES,
    warm: int = 2048,
    items: int = ITEMS,
) -> ParallelRuns:
    """Returns all settings side by side, each with all associations and seeds.

    A seed decides the order of the stream and the hash functions, and is the same in all
    settings; so are the associations.
    """
    columns: list[Items] = []
    warmers: list[Items] = []
    rows: list[tuple[Setting, int, Floats]] = []
    streams: dict[tuple[float, int], tuple[Items, Items]] = {}
    for setting in settings:
        chances = popularity(setting.skew, items)
        for place in range(associations):
            rng = np.random.default_rng([1, place])
            costs = association(rng, setting.most, items=items, distinct=setting.distinct)
            for seed in range(seeds):
                if (setting.skew, seed) not in streams:
                    rng = np.random.default_rng([2, seed])
                    streams[setting.skew, seed] = (
                        draw(rng, chances, tuples),
                        draw(rng, chances, warm),
                    )
                stream, before = streams[setting.skew, seed]
                columns.append(stream)
                warmers.append(before)
                rows.append((setting, seed, costs))
    table = np.array([costs for *_, costs in rows])
    stacked = np.stack(columns, axis=1)
    mean = np.array(
        [costs[stream].mean() for (*_, costs), stream in zip(rows, columns, strict=True)]
    )
    under = np.array([setting.under for setting, *_ in rows])
    return ParallelRuns(
        items=stacked,
        phases=[StreamPhase(0, table, mean * (1 - under))],
        threshold=np.array([setting.threshold for setting, *_ in rows]),
        mean=mean,
        share=np.maximum(under, 0.0),
        seed=np.array([seed for _, seed, _ in rows]),
        error=np.array([setting.error for setting, *_ in rows]),
        warm=np.stack(warmers, axis=1) if warm else None,
    )


def seven_phases(
    associations: int, threshold: float = 64.0, each: int = PHASE_TUPLES
) -> ParallelRuns:
    """Returns the stream of figure 9: each of phases A to G changes rates, keys or costs.

    The exchange of phase D (the most frequent item with one of the dearest) lasts until G, which
    is as A again. Cold start.
    """
    chances = popularity(1.0)
    items, tables, means = [], [], []
    for place in range(associations):
        rng = np.random.default_rng([3, place])
        costs = association(rng)
        stream = draw(rng, chances, 7 * each)
        dearest = rng.choice(np.flatnonzero(costs == costs.max()))
        swapped = stream[3 * each : 6 * each]
        first, other = swapped == 0, swapped == dearest
        swapped[first], swapped[other] = dearest, 0
        items.append(stream)
        tables.append(costs)
        means.append(chances @ costs)
    table, mean = np.array(tables), np.array(means)
    under = {"A": 0.0, "B": 0.5, "C": 0.0, "D": 0.0, "E": -0.5, "F": 0.0, "G": 0.0}
    return ParallelRuns(
        items=np.stack(items, axis=1),
        phases=[
            StreamPhase(number * each, table * (2.0 if name == "F" else 1.0), mean * (1 - share))
            for number, (name, share) in enumerate(under.items())
        ],
        threshold=np.full(associations, threshold),
        mean=mean,
        share=np.zeros(associations),
        seed=np.arange(associations),
        error=np.full(associations, 0.05),
    )
