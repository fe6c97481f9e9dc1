"""Says how wide an interval is around a count of each query's tuples, by what its gates admit."""

from collections.abc import Iterable, Mapping
from math import sqrt

import numpy as np

from penstock.core.state import State
from penstock.federation.messages import CountedTuples

NORMAL_95 = 1.96
"""An interval of 95 % reaches so many standard errors to either side."""


def counted_by_query(state: State) -> dict[str, CountedTuples]:
    """Answers how many tuples of its sources each query had over the STW, and how surely.

    A stratum of which N tuples arrived and n were admitted counts each of these for N/n. The
    variance of that count is N (N/n - 1): the sum over the admitted of w (w - 1) (see
    ``estimates``). What comes from other sites as partial results is counted there.
    """
    account = state.account
    if account is None or not account.strata:
        return {}
    arrived, admitted = account.arrived(), account.admitted()
    passing = account.strata.of_sources(state.partial)
    known = (admitted > 0) & ~passing
    weight = np.divide(arrived, admitted, out=np.ones_like(arrived), where=known)
    grouping = account.strata.grouping
    queries = len(grouping.queries)
    tuples = np.bincount(grouping.query, np.where(known, arrived, 0.0), queries)
    variance = np.bincount(grouping.query, np.where(known, arrived * (weight - 1.0), 0.0), queries)
    return {
        query: CountedTuples(tuples=float(count), variance=max(float(spread), 0.0))
        for query, count, spread in zip(grouping.queries, tuples, variance, strict=True)
        if count > 0
    }


def interval_width(parts: Iterable[CountedTuples]) -> float | None:
    """Answers half the width of the interval around the count of all parts, as a share of it.

    >>> half, whole = CountedTuples(tuples=80, variance=64), CountedTuples(tuples=20, variance=0)
    >>> interval_width([half, whole])
    0.1568
    """
    known = list(parts)
    tuples = sum(part.tuples for part in known)
    if tuples <= 0:
        return None
    return NORMAL_95 * sqrt(sum(part.variance for part in known)) / tuples


def width_of(query: str, sites: Iterable[Mapping[str, CountedTuples]]) -> float | None:
    """Answers the same of a query, over all sites that count tuples of it."""
    return interval_width(counted[query] for counted in sites if query in counted)
