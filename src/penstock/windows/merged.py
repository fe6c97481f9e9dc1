"""A batch as the account sees it: the groups of a query with a concept are one stratum."""

from collections.abc import Collection
from dataclasses import replace

from penstock.core.types import OTHER_GROUPS, Batch, Count, Stratum


def with_groups_merged(batch: Batch, queries: Collection[str]) -> Batch:
    """Answers the batch with one stratum for all groups of each source of these queries.

    Their windows count the groups, and forget them in time.
    """
    if not queries:
        return batch
    counts: dict[Stratum, Count] = {}
    for stratum, count in batch.counts.items():
        whole = _merged(stratum, queries)
        have = counts.get(whole, Count(0, 0))
        counts[whole] = Count(have.arrived + count.arrived, have.admitted + count.admitted)
    return replace(batch, counts=counts, costs=_mean_costs(batch, queries))


def _mean_costs(batch: Batch, queries: Collection[str]) -> dict[Stratum, float]:
    """Answers what the tuples of a merged stratum cost on average, of those that a guard timed."""
    counts = dict(batch.counts.items())
    sums: dict[Stratum, tuple[float, float]] = {}
    for stratum, cost in batch.costs.items():
        weight = float(max(counts[stratum].admitted, 1)) if stratum in counts else 1.0
        whole = _merged(stratum, queries)
        tuples, total = sums.get(whole, (0.0, 0.0))
        sums[whole] = tuples + weight, total + weight * cost
    return {stratum: total / tuples for stratum, (tuples, total) in sums.items()}


def _merged(stratum: Stratum, queries: Collection[str]) -> Stratum:
    return stratum._replace(group=OTHER_GROUPS) if stratum.query in queries else stratum
