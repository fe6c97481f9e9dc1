"""One pass: rates for the next micro-batch such that a window's groups come to their quotas.

A group is aimed at ``level · share`` tuples by the end of the window. With k admitted, n arrived
and R expected until the end, ``(goal - k) / R`` reaches it with equal chances for all that is to
come. It is the best that can be done for a mean: chances that vary make a few tuples speak for
many. So

- the rate never falls below half of ``goal / (n + R)``, what it would have been from the start,
  even where chance or a wrong guess has admitted too many already;
- a group of which nothing was admitted yet gets one tuple soon, however many are expected, since an
  estimate from little is better than none;
- a group that was not there before is in no table and admitted whole.

Each term grows with the level, so a budget determines it. "Rates from the counts so far" would
be ``goal / n · t``; what is gained here is that chance and surprises are made up for.
"""

from collections.abc import Callable

import numpy as np

from penstock.core.demand import Filling
from penstock.core.types import Floats, Ints

STEADY_RATE_SHARE = 0.5
"""The part of a group's constant rate below which it is never thinned."""
FIRST_TUPLES = 1.0
"""Tuples of a group that are wanted soon."""
MOST_STEPS = 90
"""Steps after which the search for a level ends in any case."""
BUDGET_LEFT_SHARE = 1e-10
"""The share of a budget that may be left."""


def rates_at(level: Floats, filling: Filling, tuples: Floats) -> Floats:
    """Answers rates for ``tuples`` that wait, where each stratum's query aims at ``level``."""
    goal = level * filling.share
    rest = np.maximum(filling.rest, tuples)
    fair = _over(goal - filling.admitted, rest)
    steady = STEADY_RATE_SHARE * _over(goal, filling.arrived + rest)
    soon = _over(np.minimum(goal, FIRST_TUPLES) - filling.admitted, tuples)
    rates = np.maximum(np.maximum(fair, steady), soon)
    return np.asarray(np.clip(rates, 0.0, 1.0))


def levels(filling: Filling, tuples: Floats, cost: Floats, query: Ints, budgets: Floats) -> Floats:
    """Answers the highest level of each query whose ``cost`` stays within its budget.

    ``cost`` is that of all that counts against the budget: of what waits, or of the whole rest of
    the window. Infinite where the budget suffices for everything.
    """
    queries = budgets.size

    def spent(level: Floats) -> Floats:
        rates = rates_at(level[query], filling, tuples)
        return np.bincount(query, cost * rates, queries).astype(np.float64)

    top = np.zeros(queries)
    ends = _over(filling.admitted + np.maximum(filling.rest, tuples), filling.share)
    np.maximum.at(top, query, ends)
    enough = np.bincount(query, cost, queries) <= budgets
    return np.where(enough, np.inf, _highest(spent, top, budgets))


def _highest(spent: Callable[[Floats], Floats], top: Floats, budgets: Floats) -> Floats:
    """Answers where ``spent`` meets the budgets, from below.

    It is piecewise linear, so the secant is exact once both ends are in the same piece; every third
    step halves, so that a kink costs little.
    """
    low, high = np.zeros(top.size), top.copy()
    below, above = spent(low) - budgets, spent(high) - budgets
    for step in range(MOST_STEPS):
        if (-below <= BUDGET_LEFT_SHARE * budgets).all():
            break
        part = np.full(low.size, 0.5)
        if step % 3 != 2:  # where all is affordable there is nothing to find
            np.divide(-below, above - below, out=part, where=above > 0)
        middle = low + (high - low) * part
        over = spent(middle) - budgets
        within = over <= 0
        low, below = np.where(within, middle, low), np.where(within, over, below)
        high, above = np.where(within, high, middle), np.where(within, above, over)
    return low


def _over(amount: Floats, of: Floats) -> Floats:
    """Answers a quotient; infinite, or 0, where there is nothing to divide by."""
    full = np.where(amount > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):
        return np.divide(amount, of, out=full, where=of > 0)
