"""What a rate means where there is next to nothing to thin.

A rate of 0.4 on a thousand tuples admits four hundred; on one tuple it is a coin toss.

*Whole.* One partial result may carry a second of ten sources, and costs next to nothing: where the
plan wants a part of it at all, it is admitted, and the others make room.

*Turns.* A query that sends a few tuples a batch, as most of many tenants do, would be far above
or far below the others by chance. So chance is taken back: its next tuples are admitted at the
rate that brings it to the level of the others over the STW, which for one or two tuples means all
or none, by turns.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Bools, Floats

FEW_TUPLES = 10.0
"""A stratum of so many tuples, or fewer, may be taken whole."""
VALUABLE_TIMES_MEAN = 10.0
"""Times the average SIC per unit of cost of all that waits."""
TAKEN_BACK = 0.3
"""How much of what a small query is away from the others is made up for in one batch: all of it
would come back once an STW for ever."""
SMALL_TUPLES = 200.0
"""A query of which so many tuples wait, or fewer, is small: chance would show in its SIC."""


@dataclass(frozen=True, slots=True)
class Past:
    """What each stratum has had over the STW, where nobody has counted what waits."""

    arrived: Floats
    admitted: Floats
    unseen: Bools


def rounded(demand: Demand, rates: Floats, capacity: float, past: Past | None) -> Floats:
    """Answers the rates with those of few tuples rounded, within the capacity.

    A policy that does not level out SIC has no queries that take turns, and no ``past``.
    """
    if past is None:
        return take_whole(demand, rates, capacity)
    small = _small(demand) & past.unseen
    return take_turns(demand, take_whole(demand, rates, capacity, ~small), capacity, past, small)


def _small(demand: Demand) -> Bools:
    """Answers which strata are all that waits of a small query that was promised nothing."""
    queries = demand.queries
    waiting = np.bincount(demand.query, demand.tuples, len(queries))
    alone = np.bincount(demand.query, minlength=len(queries)) == 1
    free = (queries.floor <= queries.sic) & ~np.isfinite(queries.ceiling)
    return np.asarray((waiting <= SMALL_TUPLES) & alone & free)[demand.query] & ~demand.paid


def take_turns(demand: Demand, rates: Floats, capacity: float, past: Past, small: Bools) -> Floats:
    """Answers the rates with those of small queries such that these come to where others stand."""
    queries = demand.queries
    thinned = np.zeros(len(queries), dtype=np.bool_)
    thinned[demand.query[~small & (rates > 0.0) & (rates < 1.0)]] = True
    if not small.any() or not thinned.any():
        return rates
    level = float(np.median((queries.sic / queries.weight)[thinned]))
    goal = np.minimum(queries.weight * level, 1.0)[demand.query]
    waits = np.maximum(demand.tuples, 1.0)
    wanted = goal + TAKEN_BACK * (goal * past.arrived - past.admitted) / waits
    turns = np.where(small, np.clip(wanted, 0.0, 1.0), rates)
    return _making_room(demand, rates, turns, capacity, small)


def take_whole(
    demand: Demand, rates: Floats, capacity: float, among: Bools | bool = True
) -> Floats:
    """Answers the rates with those of few, valuable tuples rounded up, within the capacity."""
    cost = demand.tuples * demand.cost
    total = float(cost.sum())
    if total <= 0.0:
        return rates
    average = float((demand.tuples * demand.sic).sum()) / total
    valuable = demand.sic >= VALUABLE_TIMES_MEAN * average * demand.cost
    few = (demand.tuples <= FEW_TUPLES) & valuable & among
    few &= (rates > 0.0) & (rates < 1.0)
    if not few.any():
        return rates
    return _making_room(demand, rates, np.where(few, 1.0, rates), capacity, few)


def _making_room(
    demand: Demand, rates: Floats, wanted: Floats, capacity: float, fixed: Bools
) -> Floats:
    """Answers the wanted rates; those that are not fixed take what is left, more or less."""
    cost = demand.tuples * demand.cost
    others = float((cost * rates)[~fixed].sum())
    left = capacity - float((cost * wanted)[fixed].sum())
    if left <= 0.0 or others <= 0.0:
        return rates  # they are most of what there is: no few among many
    return np.where(fixed, wanted, np.minimum(rates * (left / others), 1.0))
