"""Strata of a few very valuable tuples are taken whole.

A rate of 0.4 on a thousand tuples keeps four hundred; on one tuple it is a coin toss. One partial
result may carry a second of ten sources, and costs next to nothing: where the plan wants a part
of it at all, it is kept, and the others make room.
"""

import numpy as np

from penstock.core.types import Demand, Floats

FEW = 10.0
"""Tuples."""
VALUABLE = 10.0
"""Times the average SIC per unit of cost of all that waits."""


def take_whole(demand: Demand, rates: Floats, capacity: float) -> Floats:
    """The rates with those of few and valuable tuples rounded up, within the same capacity."""
    cost = demand.tuples * demand.cost
    total = float(cost.sum())
    if total <= 0.0:
        return rates
    average = float((demand.tuples * demand.sic).sum()) / total
    few = (demand.tuples <= FEW) & (demand.sic >= VALUABLE * average * demand.cost)
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
