"""The oracle: sees a window twice, once to count its groups and once to shed.

It is what CoD does in a window manager (sections V and VI), and what the one-pass form at the
gate is measured by.
"""

import numpy as np

from penstock.concept import quota
from penstock.concept.stream import Kept, Stream
from penstock.types import Bools, Floats, Ints


def limits(sizes: Floats, goal: Floats) -> Floats:
    """The luck below which ``goal[g]`` tuples of each group are found for certain, or nearly so.

    Six standard deviations and twelve tuples more than asked for; all where that is all.
    """
    enough = goal + 6.0 * np.sqrt(goal) + 12.0
    return np.asarray(np.minimum(enough / np.maximum(sizes, 1.0), 1.0))


def shed(group: Ints, goal: Floats, luck: Floats) -> Bools:
    """Which tuples of a window are kept: ``goal[g]`` of each group, those with the least luck.

    ``luck`` is even in [0, 1), so that is a sample without replacement, and one of a part of the
    window is part of it: a reservoir for every group at once. Broken goals are rounded by chance
    such that their sum stays, and never to nothing: no group is missed.
    """
    if not group.size:
        return np.zeros(0, dtype=np.bool_)
    up_to = np.floor(np.cumsum(goal) + luck.min() * group.size % 1.0)
    whole = np.maximum(np.diff(up_to, prepend=0.0), 1.0)
    order = np.argsort(group + luck)
    counts = np.bincount(group, minlength=goal.size)
    rank = np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.zeros(group.size, dtype=np.bool_)
    kept[order[rank < np.repeat(whole, counts)]] = True
    return kept


def oracle(stream: Stream, budgets: Ints, rng: np.random.Generator) -> Kept:
    """Equal quotas in each (tumbling) window, as many tuples as its budget says."""
    kept = np.zeros(len(stream), dtype=np.bool_)
    weight = np.ones(len(stream))
    for window, budget in zip(stream.windows(), budgets.tolist(), strict=True):
        group = np.unique(stream.group[window], return_inverse=True)[1]
        sizes = np.bincount(group).astype(np.float64)
        level = quota.level(sizes, float(budget))
        kept[window] = chosen = shed(group, np.minimum(sizes, level), rng.random(group.size))
        weight[window] = (sizes / np.bincount(group[chosen], minlength=sizes.size))[group]
    return Kept(kept, weight)


def uniform(stream: Stream, budgets: Ints, rng: np.random.Generator) -> Kept:
    """The same chance for every tuple of a window."""
    kept = np.zeros(len(stream), dtype=np.bool_)
    weight = np.ones(len(stream))
    for window, budget in zip(stream.windows(), budgets.tolist(), strict=True):
        size = window.stop - window.start
        kept[window] = rng.random(size) < budget / size
        weight[window] = size / max(budget, 1)
    return Kept(kept, weight)


def as_before(stream: Stream, share: float, rng: np.random.Generator) -> Kept:
    """Quotas by the frequencies of the window before: what drift defeats.

    A group that was not in it gets the share that all get; its first window has nothing to go by.
    """
    kept = np.zeros(len(stream), dtype=np.bool_)
    weight = np.ones(len(stream))
    before = np.zeros(stream.groups)
    for window in stream.windows():
        group = stream.group[window]
        level = quota.level(before[before > 0], share * group.size)
        rate = np.divide(level, before, out=np.full(before.size, share), where=before > 0)
        rate = np.minimum(rate, 1.0)[group]
        kept[window] = rng.random(group.size) < rate
        weight[window] = 1.0 / rate
        before = np.bincount(group, minlength=stream.groups).astype(np.float64)
    return Kept(kept, weight)
