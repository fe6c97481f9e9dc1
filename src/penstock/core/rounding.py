"""Strata of a few very valuable tuples are taken whole.

A rate of 0.4 on a thousand tuples admits four hundred; on one tuple it is a coin toss. One partial
result may carry a second of ten sources, and costs next to nothing: where the plan wants a part
of it at all, it is admitted, and the others make room.
"""

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Floats

FEW_TUPLES = 10.0
"""A stratum of so many tuples, or fewer, may be taken whole."""
VALUABLE_TIMES_MEAN = 10.0
"""Times the average SIC per unit of cost of all that waits."""


def take_whole(demand: Demand, rates: Floats, capacity: float) -> Floats:
    """Answers the rates with those of few, valuable tuples rounded up, within the capacity."""
    cost = demand.tuples * demand.cost
    total = float(cost.sum())
    if total <= 0.0:
        return rates
    average = float((demand.tuples * demand.sic).sum()) / total
    valuable = demand.sic >= VALUABLE_TIMES_MEAN * average * demand.cost
    few = (demand.tuples <= FEW_TUPLES) & valuable
    few &= (rates > 0.0) & (rates < 1.0)
    if not few.any():
        return rates
    rounded = np.where(few, 1.0, rates)
    excess = float((cost * rounded).sum()) - capacity
    if excess <= 0.0:
        return rounded
    others = float((cost * rates)[~few].sum())
    if excess >= others:
        return rates  # they are most of what there is: no few among many
    return np.where(few, 1.0, rates * (1.0 - excess / others))
