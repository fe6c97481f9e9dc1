"""What a query with a concept asks for in the next batch: less than all, where it has a goal."""

import numpy as np

from penstock.core.demand import Filling
from penstock.core.types import OTHER_GROUPS, Floats, Stratum
from penstock.windows import quota
from penstock.windows.pace import levels, rates_at
from penstock.windows.window import Window

LEAST_PACE_SHARE = 0.5
"""Where a window's share is used up already, so much of an even pace is still admitted."""
SPREAD_CAUTION_ERRORS = 2.0
"""Standard errors of a spread that are added to it."""


def shares_of_quota(window: Window, strata: tuple[Stratum, ...], filling: Filling) -> Floats:
    """Answers 1 for each group, or shares by their spread; new groups are admitted whole anyway."""
    if window.concept.by == "equal" or window.concept.bound is not None:
        return filling.share
    return filling.share * quota.neyman(quota.spread(*window.moments.of(strata)))


def wanted(window: Window, strata: tuple[Stratum, ...], filling: Filling, tuples: Floats) -> Floats:
    """Answers the rates at which a query just reaches its own goal; 1 for all without a goal."""
    concept = window.concept
    if concept.bound is not None:
        return _accurate(window, strata, filling, tuples, concept.bound)
    if concept.kept_share is None:
        return np.ones(len(strata))
    rates = np.ones(len(strata))
    counted = np.array([stratum.group != OTHER_GROUPS for stratum in strata], dtype=np.bool_)
    small = float(filling.rest[~counted].sum())
    own = filling.only(counted)
    rates[counted] = _thinned(own, tuples[counted], small, concept.kept_share, window)
    return rates


def _accurate(
    window: Window, strata: tuple[Stratum, ...], filling: Filling, tuples: Floats, error: float
) -> Floats:
    """Answers rates that bring each group's mean within the error and not much further.

    What batches have lost already is lost; of what is left of the allowance, all that is to come
    gets the same chance: ``R (1/r - 1) = left``.
    """
    rest = np.maximum(filling.rest, tuples)
    spread = quota.spread(*window.moments.of(strata), caution=SPREAD_CAUTION_ERRORS)
    most = quota.allowed(spread, filling.arrived + rest, error, window.concept.confidence)
    left = np.maximum(most - window.lost(strata), 0.0)
    rates = np.divide(rest, rest + left, out=np.ones(rest.size), where=rest + left > 0)
    few = np.divide(
        quota.ENOUGH_TUPLES - filling.admitted, rest, out=np.ones(rest.size), where=rest > 0
    )
    new = (filling.share > 1.0).astype(np.float64)
    return np.asarray(np.clip(np.maximum(np.maximum(rates, few), new), 0.0, 1.0))


def _thinned(
    filling: Filling, tuples: Floats, small: float, share: float, window: Window
) -> Floats:
    """Answers rates that admit this share of the window, with what was admitted of it already.

    Groups that are not counted one by one are small, and their ``small`` rest is admitted whole;
    the others pay for them, down to half of their share.
    """
    arrived = float(window.panes.arrived().sum())
    admitted, rest = float(window.panes.admitted().sum()), window.rest()
    total = arrived + max(rest, float(tuples.sum()))
    coming = max(total - arrived - small, 0.0)
    budget = max(share * total - admitted - small, LEAST_PACE_SHARE * share * coming)
    one = np.zeros(tuples.size, dtype=np.int64)
    cost = np.maximum(filling.rest, tuples)
    level = levels(filling, tuples, cost, one, np.array([budget]))
    return rates_at(level[one], filling, tuples)
