"""Sums up what a query's result has come to over the STW (THEMIS, equation 4).

A batch of results stands for the time since the batch before it, and says two things: what SIC came
with it, and what was meant to come, had no gate shed any of it. The SIC of the STW is the one over
the other, and so never above 1. What never came, of a dead site, a dead source, a lost link or as
late rows, is not in what was meant to come, either. Therefore the SIC is compared with the time,
too: all sources of a query together are worth an STW's share of 1 in each second of it.
"""

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.spark.query import BatchLatency, ResultBatch

LATEST_BATCHES = 8
"""Those by which the age of results is judged."""


class _Part(NamedTuple):
    """Is what one batch brings to the STW."""

    seconds: float
    """The time since the batch before it, as far as it lies in the STW."""
    came: float
    meant: float


def sic_of_results(results: Iterable[ResultBatch], now: float, stw_seconds: float) -> float | None:
    """Returns the SIC of the results of the STW that ends now; None before there are any.

    Nobody knows for which time the first batch stands, so it counts for nothing. A query that is
    younger than an STW is judged by the time since then. Batches without any result are left out: a
    window of a minute does not close every second. So the time since the last results counts as
    silence only when it is longer than any such time before.

    >>> results = [ResultBatch(second, 0.05, 0.1, 1) for second in range(1, 21)]
    >>> round(sic_of_results(results, 20.0, 10.0), 3), sic_of_results([], 20.0, 10.0)
    (0.5, None)
    >>> sic_of_results(results, 40.0, 10.0)
    0.0
    """
    known = [result for result in results if result.meant > 0.0]
    if not known:
        return None
    begins, last = now - stw_seconds, known[-1].committed
    parts = [
        _part(before, result, begins)
        for before, result in pairwise(known)
        if result.committed > begins
    ]
    if not parts:
        return None if len(known) == 1 and last > begins else 0.0
    silence = max(now - last - max(part.seconds for part in parts), 0.0)
    due = (sum(part.seconds for part in parts) + silence) / stw_seconds
    return sum(part.came for part in parts) / max(sum(part.meant for part in parts), due)


def _part(before: ResultBatch, result: ResultBatch, begins: float) -> _Part:
    """Returns the part of a batch that lies in an STW."""
    whole = max(result.committed - before.committed, 1e-9)
    seconds = result.committed - max(before.committed, begins)
    share = min(seconds / whole, 1.0)
    came = min(result.sic, result.meant)  # sums of the same rows, but for rounding
    return _Part(max(seconds, 0.0), share * came, share * result.meant)


def age_of_results(
    latencies: Sequence[BatchLatency], watermark_seconds: float, stw_seconds: float
) -> float:
    """Returns how long ago the sources sent what the newest results are made of, in seconds.

    Tuples are so old when the root reads them, and then wait for the watermark. News that would be
    older than an STW would fade when it comes.

    >>> age_of_results([], 15.0, 30.0), age_of_results([], 15.0, 10.0)
    (15.0, 10.0)
    """
    ages = [
        float(latency.ages[len(latency.ages) // 2])
        for latency in latencies[-LATEST_BATCHES:]
        if latency.ages is not None
    ]
    waited = statistics.median(ages) if ages else 0.0
    return min(waited + watermark_seconds, stw_seconds)


def rows_of_results(results: Iterable[ResultBatch]) -> int:
    """Returns how many rows there were.

    >>> rows_of_results([ResultBatch(1.0, 0.1, 0.1, 2), ResultBatch(2.0, 0.1, 0.2, 3)])
    5
    """
    return sum(result.rows for result in results)
