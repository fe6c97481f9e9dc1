"""What a site *said* of SIC while it ran, against what was kept, worked out anew.

Nothing of the site's own accounts is used: what arrived is known by the generator, what was kept
was counted behind the gate, and a query's SIC is the mean over its sources of kept over arrived.
Which batches an answer covers is known up to one at either end: a site counts by intervals, and a
batch that has just ended may not have been heard of yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from penstock.core.types import Stratum

HEARD_WITHIN_SECONDS = 2.0
"""A site hears of a batch so long after its end at most; on a busy machine."""
Saying = tuple[float, Mapping[str, float]]
"""When the site was asked, and what it said of each query."""


@dataclass(frozen=True)
class KeptBatch:
    """Is what a batch brought, and what came through the gate."""

    ended: float
    """Seconds since the epoch."""
    arrived: Mapping[Stratum, int]
    kept: Mapping[Stratum, int]


def true_sic(batches: Iterable[KeptBatch]) -> dict[str, float]:
    """Returns each query's SIC over these batches: the mean over its sources of kept / arrived.

    >>> a, b = Stratum("q", "a"), Stratum("q", "b")
    >>> true_sic([KeptBatch(0.0, {a: 100, b: 2}, {a: 50})])
    {'q': 0.25}
    """
    arrived: dict[tuple[str, str], int] = defaultdict(int)
    kept: dict[tuple[str, str], int] = defaultdict(int)
    for batch in batches:
        for sums, counts in ((arrived, batch.arrived), (kept, batch.kept)):
            for stratum, tuples in counts.items():
                sums[stratum.query, stratum.source] += tuples
    parts: dict[str, list[float]] = defaultdict(list)
    for (query, source), tuples in arrived.items():
        if tuples > 0:
            parts[query].append(kept[query, source] / tuples)
    return {query: sum(shares) / len(shares) for query, shares in parts.items()}


def furthest_off(
    sayings: Sequence[Saying], batches: Sequence[KeptBatch], stw: float, interval: float
) -> list[float]:
    """Returns, for each time the site said something, how far its worst query was from the truth.

    Of the batches that the answer may cover, those count with which it fits best, for all queries
    at once.
    """
    return [
        min(
            _apart(said, true_sic(batches[first:stop]))
            for first, stop in _ranges(at, batches, stw, interval)
        )
        for at, said in sayings
        if said and any(batch.ended <= at for batch in batches)
    ]


def _ranges(
    at: float, batches: Sequence[KeptBatch], stw: float, interval: float
) -> list[tuple[int, int]]:
    """Returns the places of the batches that an answer at this time may cover."""
    opens = (at // interval + 1) * interval - stw
    ends = [batch.ended for batch in batches]
    stop = sum(end <= at for end in ends)
    firsts = [
        place
        for place in range(stop)
        if (place == 0 or ends[place - 1] <= opens + HEARD_WITHIN_SECONDS)
        and ends[place] >= opens - HEARD_WITHIN_SECONDS
    ]
    stops = [
        place
        for place in range(1, stop + 1)
        if place == stop or ends[place] >= at - HEARD_WITHIN_SECONDS
    ]
    return [(first, last) for first in firsts or [stop - 1] for last in stops if last > first]


def _apart(said: Mapping[str, float], true: Mapping[str, float]) -> float:
    """Returns the largest difference; a query that only one of the two has is wrong by 1."""
    return max(
        (
            abs(said[query] - true[query]) if query in said and query in true else 1.0
            for query in said.keys() | true.keys()
        ),
        default=0.0,
    )


def in_order(batches: Mapping[int, KeptBatch]) -> list[KeptBatch]:
    """Returns batches by number, each ending no earlier than the one before.

    Clocks are read in different places, and may differ by a millisecond.
    """
    ordered = [batch for _, batch in sorted(batches.items())]
    ends = accumulate((batch.ended for batch in ordered), max)
    return [
        KeptBatch(end, batch.arrived, batch.kept) for end, batch in zip(ends, ordered, strict=True)
    ]
