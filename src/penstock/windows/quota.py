"""How many tuples of each group a window needs; the more even, the better the worst is served.

Four ways. *Proportional* quotas are what CoD asks for in words (section VI-C.2): of each group the
same share, and at least one tuple. *Equal* quotas are ours: no group is worth more than another, so
the mean over groups of their errors is less at the same volume. *Neyman* (1934) gives more to
groups whose values are spread wider, which makes the sum of the variances least. From an *error
target*, a quota follows for each group by itself.
"""

from statistics import NormalDist

import numpy as np

from penstock.core.types import Floats

UNSURE_VALUES = 2.0
"""The spread of a group of so many values counts as much as that of all groups together."""


ENOUGH_TUPLES = 30.0
"""Tuples of a group below which neither its spread nor the normal distribution can be relied on."""


def z(confidence: float) -> float:
    """Answers how many standard errors an interval of this confidence has on either side."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def spread(count: Floats, mean: Floats, squares: Floats, caution: float = 0.0) -> Floats:
    """Answers the relative standard deviation of each group, drawn towards that of all groups.

    Groups have few values. ``squares`` are summed about the group's own mean. A group of which
    nothing is known is taken to be like the others. ``caution`` adds so many standard errors, or
    about: of a bounded error one wants to be sure.
    """
    sure = count > 1
    scale = np.where(np.abs(mean) > 0, np.abs(mean), 1.0)
    relative = np.where(sure, squares / scale**2, 0.0)
    freedom = np.where(sure, count - 1, 0.0)
    pooled = float(relative.sum() / freedom.sum()) if freedom.sum() > 0 else 1.0
    known = freedom + UNSURE_VALUES
    margin = 1.0 + caution / np.sqrt(known)
    return np.asarray(margin * np.sqrt((relative + UNSURE_VALUES * pooled) / known))


def neyman(relative_spread: Floats) -> Floats:
    """Answers shares of a quota, 1 on average: ``n_g ∝ σ_g``; every group's error counts alike."""
    mean = float(relative_spread.mean()) if relative_spread.size else 0.0
    return relative_spread / mean if mean > 0 else np.ones(relative_spread.size)


def allowed(relative_spread: Floats, total: Floats, error: float, confidence: float) -> Floats:
    """Answers how much of each group may go such that its mean stays within ``error``.

    (Babcock et al.) N tuples of which each batch's n_b are admitted at a rate r_b have a mean
    whose relative variance is ``cv² / N² · Σ n_b (1 / r_b - 1)``. The answer is the most that the
    sum may come to.
    """
    return np.asarray((total * error / (z(confidence) * np.maximum(relative_spread, 1e-9))) ** 2)


def sample_sizes(total: Floats, relative_spread: Floats, error: float, confidence: float) -> Floats:
    """Answers how many tuples of each group bring its mean within ``error``; never too few to tell.

    The textbook's size for a sample without replacement: ``n = n₀ / (1 + n₀ / N)`` of N tuples with
    ``n₀ = (z cv / e)²``.

    >>> sample_sizes(np.array([1000.0, 20.0]), np.array([0.5, 0.5]), 0.05, 0.95).tolist()
    [278.0, 20.0]
    """
    wanted = (z(confidence) * relative_spread / error) ** 2
    enough = np.ceil(wanted / (1.0 + wanted / np.maximum(total, 1.0)))
    return np.minimum(np.maximum(enough, ENOUGH_TUPLES), total)


def proportional(total: Floats, budget: float) -> Floats:
    """Answers the same share of each group, but one tuple at least, for so many in all.

    Where there are more groups than the budget has tuples, each gets one all the same.

    >>> proportional(np.array([1.0, 4.0, 16.0]), 6.0).tolist()
    [1.0, 1.0, 4.0]
    """
    order = np.argsort(total)
    ascending = total[order]
    at_one = np.arange(total.size)  # if so many of the smallest get one
    others = ascending[::-1].cumsum()[::-1]
    share = np.clip((budget - at_one) / np.maximum(others, 1e-12), 0.0, 1.0)
    enough = share * ascending >= 1.0
    first = int(np.argmax(enough)) if enough.any() else total.size
    goal = np.ones(total.size)
    if first < total.size:
        goal[order[first:]] = share[first] * ascending[first:]
    return np.minimum(goal, total)


def level(total: Floats, budget: float) -> float:
    """Answers the quota q with ``Σ min(N_g, q) = budget``, for who knows the whole window.

    >>> level(np.array([1.0, 10.0, 10.0]), 9.0)
    4.0
    """
    if total.sum() <= budget:
        return float(total.max(initial=0.0))
    ascending = np.sort(total)
    whole = np.concatenate(([0.0], np.cumsum(ascending)[:-1]))
    groups = ascending.size - np.arange(ascending.size)
    place = int(np.searchsorted(whole + ascending * groups, budget))
    return float((budget - whole[place]) / groups[place])
