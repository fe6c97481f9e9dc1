"""Where each query stands, and what each waiting tuple would lift it by.

A query's standing combines where it is over the past STW with where this plan would take it, in
equal parts. Correcting the whole past in one interval instead, as THEMIS' projection taken
literally does, repeats every disturbance once an STW for ever; by half, it dies out, and the long
run is the same.

*Elsewhere.* A coordinator tells a query's SIC, of some time ago. A site takes it for what it was
then and adds what it has itself admitted since (see ``news``). And it takes the other sites
to do as it does: where it gives a query a tenth more, the whole of the query is taken to rise by a
tenth. If each site mended the whole of a gap on its own, k sites would mend it k times over, all
drop the query when they hear of it, and so on for ever.

*Silent sources.* A query is compared with others by its part of what it could have: of a query
that has lost one of three sources, two thirds are all. Taken for a query at two thirds it would
be the poorest for ever, and be given what others need without ever rising; taken for one that is
as rich as the others once it has two thirds of what they have, it would get less than they do of
what its other sources send.

*Uneven flows.* Partial results come once a window, in few intervals of many, and a source's
batches do not come evenly, either. Where the caller has counted what waits, it stands for the
steady flow that it is over the STW, in intervals with much of it and with little: to give a query
the same in each interval in which it has something would give it too little in all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.account import Account
from penstock.core.demand import Forecast, Queries
from penstock.core.news import sic_elsewhere
from penstock.core.settings import QueryTerms, Settings
from penstock.core.standing import Standing
from penstock.core.state import State
from penstock.core.types import Bools, Floats

USUAL_BATCH_FACTOR = 3.0
"""So many times more or less than usual may wait and still count as usual; a burst is more."""
MOST_TIMES_OWN_PART = 8.0
"""A site takes the rest of a query for at most so many times its own part of it."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Where the policy takes queries to stand, and what it takes a tuple to be worth."""

    queries: Queries
    sic: Floats
    """Of one tuple of each stratum: what it would lift its query by."""
    partial: Bools
    """Marks strata of partial results."""


Project = Callable[[State, Account, Standing, Forecast, float, Settings], Projection]
"""Makes a projection at a time; ``project`` is what Penstock does."""


def project(
    state: State,
    account: Account,
    standing: Standing,
    forecast: Forecast,
    now: float,
    settings: Settings,
) -> Projection:
    """Projects such that all that waits lifts a query by 1 from where the past STW has it."""
    past = standing.sic
    # of one interval, so that all that waits lifts a query from 0 to 1
    sic = standing.tuple_sic * (settings.stw_seconds / settings.interval)
    if state.told:
        others = sic_elsewhere(state, standing.queries, now, settings.stw_seconds)
        past = np.maximum(past + others, 0.0)
        times = np.clip(past / np.maximum(standing.sic, 1e-9), 1.0, MOST_TIMES_OWN_PART)
        alike = times[standing.query]
        sic *= alike
    could = np.maximum(standing.attainable, 1e-9)
    past = past / could
    sic /= could[standing.query]
    queries = _with_terms(past, standing.queries, settings)
    partial = account.strata.of_sources(state.partial)
    if not forecast.seen.any():
        return Projection(queries, sic, partial)
    waits = forecast.tuples > 0
    counted = forecast.seen & waits
    usual = account.arrived()[counted] / account.slots
    least = np.where(partial[counted], 0.0, 1 / USUAL_BATCH_FACTOR)
    sic[counted] *= np.clip(usual / forecast.tuples[counted], least, USUAL_BATCH_FACTOR)
    flow = np.where(partial & ~waits, standing.gained / could[standing.query], 0.0)
    if state.told:
        flow *= alike
    height = queries.sic + np.bincount(standing.query, flow, len(queries))
    return Projection(replace(queries, sic=height), sic, partial)


def _with_terms(past: Floats, names: tuple[str, ...], settings: Settings) -> Queries:
    if not settings.terms:
        return Queries.of(past)
    terms = [settings.terms.get(query, QueryTerms()) for query in names]
    promised = np.array([t.floor if t.floor > 0 else -np.inf for t in terms])
    return Queries.of(
        past,
        weight=np.array([t.weight for t in terms]),
        floor=promised + past,
        ceiling=np.array([t.ceiling for t in terms]) + past,
        guest=np.array([t.guest for t in terms], dtype=np.bool_),
    )
