"""Sums up what a query's result has come to over the STW (THEMIS, equation 4)."""

from collections.abc import Iterable

from penstock.spark.query import ResultBatch


def sic_of_results(results: Iterable[ResultBatch], now: float, stw_seconds: float) -> float | None:
    """Returns the SIC of the results of the STW that ends now; None before there is any.

    A query that is younger than an STW has had only a part of it, and is judged by that part. The
    rates of sources move, and stamps use those of the past, so that the sum may come to more than
    1, which is then 1.

    >>> results = [ResultBatch(second, 0.1, 1) for second in range(1, 21)]
    >>> round(sic_of_results(results, 20.0, 10.0), 3), sic_of_results([], 20.0, 10.0)
    (1.0, None)
    >>> sic_of_results(results, 40.0, 10.0)
    0.0
    """
    known = list(results)
    if not known:
        return None
    first = known[0].committed
    span = min(max(now - first, 0.0), stw_seconds)
    if span <= 0.0:
        return None
    # what the first batch brought was gathered before, over a time that nobody knows
    came = sum(r.sic for r in known if first < r.committed and r.committed > now - span)
    return min(came * stw_seconds / span, 1.0)


def rows_of_results(results: Iterable[ResultBatch]) -> int:
    """Returns how many rows there were.

    >>> rows_of_results([ResultBatch(1.0, 0.1, 2), ResultBatch(2.0, 0.1, 3)])
    5
    """
    return sum(result.rows for result in results)
