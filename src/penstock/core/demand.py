"""What a policy is asked, and what it must answer.

The controller forecasts what waits, makes a *demand* of it, and asks a *policy* for the rates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from penstock.core.types import Bools, Floats, Ints
from penstock.errors import PenstockError

RATE_TOLERANCE = 1e-9
"""A rate may exceed 1 by this much, which is rounding."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next batches bring, one entry a stratum."""

    stream: Ints
    """An index into the streams of the state, or -1."""
    tuples: Floats
    expected: Mapping[str, float]
    """Tuples of each stream, all strata together."""
    weight: Floats
    """How many tuples of its stream's cost models a tuple counts for."""
    seen: Bools
    """Strata whose waiting tuples the caller has counted; the others are expected as of late."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Who asks, one entry a query.

    ``sic`` is where a query stands before anything that waits is admitted. ``weight`` scales
    its share, ``floor`` is the SIC that it is promised first, ``ceiling`` the SIC above which
    it yields to everybody else.
    """

    sic: Floats
    weight: Floats
    floor: Floats
    ceiling: Floats
    guest: Bools
    """Marks queries that are not the site's own; see ``penstock.federation.lending``."""

    @classmethod
    def of(
        cls,
        sic: npt.ArrayLike,
        weight: npt.ArrayLike = 1.0,
        floor: npt.ArrayLike = 0.0,
        ceiling: npt.ArrayLike = np.inf,
        guest: npt.ArrayLike = False,
    ) -> "Queries":
        standing = np.atleast_1d(np.asarray(sic, dtype=np.float64))
        terms = [_filled(x, standing.size) for x in (weight, floor, ceiling)]
        marked = np.broadcast_to(np.asarray(guest, dtype=np.bool_), standing.shape)
        return cls(standing, terms[0], terms[1], terms[2], marked)

    def __len__(self) -> int:
        return self.sic.size


@dataclass(frozen=True, slots=True)
class Filling:
    """How far the window of each stratum's query has filled; see ``penstock.windows``."""

    arrived: Floats
    admitted: Floats
    rest: Floats
    """Tuples that are still to come."""
    share: Floats
    """What a stratum gets of a quota, where others get 1."""

    def only(self, some: Bools) -> "Filling":
        return Filling(self.arrived[some], self.admitted[some], self.rest[some], self.share[some])


@dataclass(frozen=True, slots=True)
class Demand:
    """What waits, one entry a stratum: a struct of arrays, so that a million is no problem."""

    queries: Queries
    query: Ints
    """Index into ``queries``."""
    tuples: Floats
    sic: Floats
    """Of one tuple."""
    cost: Floats
    """Of one tuple, in the unit of the capacity."""
    paid: Bools
    """Marks partial results, for which other sites have worked."""
    filling: Filling | None = None
    """How far windows have filled, where any query of the site has a concept."""

    @classmethod
    def of(
        cls,
        queries: Queries,
        query: npt.ArrayLike,
        tuples: npt.ArrayLike,
        sic: npt.ArrayLike,
        cost: npt.ArrayLike = 1.0,
        paid: npt.ArrayLike = False,
    ) -> "Demand":
        index = np.atleast_1d(np.asarray(query, dtype=np.int64))
        amounts = [_filled(x, index.size) for x in (tuples, sic, cost)]
        marked = np.broadcast_to(np.asarray(paid, dtype=np.bool_), index.shape)
        return cls(queries, index, amounts[0], amounts[1], amounts[2], marked)

    def __len__(self) -> int:
        return self.query.size

    def total_cost(self) -> float:
        return float((self.tuples * self.cost).sum())

    def spent(self, rates: Floats) -> float:
        """Answers the expected cost of a plan with these rates."""
        return float((self.tuples * self.cost * rates).sum())

    def reached(self, rates: Floats) -> Floats:
        """Answers the SIC at which each query arrives under these rates."""
        gained = np.bincount(self.query, self.tuples * self.sic * rates, len(self.queries))
        return self.queries.sic + gained


@runtime_checkable
class Policy(Protocol):
    """Divides a capacity between strata; all policies differ only in the rates they give.

    The controller calls ``rates`` for each plan, with a demand whose numbers are finite and not
    negative. The policy answers an admission rate in [0, 1] for each stratum, whose expected
    cost does not exceed the capacity, and 1 for all where the capacity suffices. It keeps no
    state and knows neither Spark nor the clock.
    """

    name: ClassVar[str]

    def rates(self, demand: Demand, capacity: float) -> Floats: ...


def keeps_paid(policy: Policy) -> bool:
    """Answers whether a policy admits all partial results, whatever their query's standing.

    A policy says so with ``keeps_paid = True``. The standing of a query then counts what passes
    through this site as a contribution of others.
    """
    return bool(getattr(policy, "keeps_paid", False))


def is_blind(policy: Policy) -> bool:
    """Answers whether a policy gives its rates without a look at what tuples are worth.

    A policy says so with ``blind = True``. The controller then does not round its rates by what
    tuples are worth, either.
    """
    return bool(getattr(policy, "blind", False))


def levels_sic(policy: Policy) -> bool:
    """Answers whether a policy brings queries to one level of SIC, in proportion to their weight.

    A policy says so with ``levels_sic = True``. The controller then lets queries of one or two
    tuples take turns instead of tossing a coin for each.
    """
    return bool(getattr(policy, "levels_sic", False))


def checked_rates(policy: Policy, demand: Demand, capacity: float) -> Floats:
    """Answers the policy's rates, or refuses them: a policy may be a user's own."""
    answer = policy.rates(demand, capacity)
    try:
        rates = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise PenstockError(
            f"policy {_name(policy)!r} must answer an array of rates, such as "
            f"numpy.full(len(demand), 0.5); got {answer!r}"
        ) from None
    if rates.shape != (len(demand),):
        raise PenstockError(
            f"policy {_name(policy)!r} must answer one rate for each stratum of the demand, that "
            f"is an array of the shape ({len(demand)},); got the shape {rates.shape}"
        )
    right = (rates >= 0.0) & (rates <= 1.0 + RATE_TOLERANCE)
    if not right.all():
        raise PenstockError(
            f"policy {_name(policy)!r} must answer rates between 0 and 1, such as 0.5; "
            f"got the rate {rates[~right][0]:g}"
        )
    return rates


def _name(policy: Policy) -> str:
    return getattr(policy, "name", type(policy).__name__)


def _filled(values: npt.ArrayLike, size: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return np.full(size, array) if array.ndim == 0 else array
