"""How evenly a quality is spread, and how far two rankings are apart."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt


def jain(values: npt.ArrayLike) -> float:
    """Jain's index: ``(Σx)² / (n · Σx²)``, 1 when all are equal, 1/n when one has everything.

    >>> jain([0.5, 0.5])
    1.0
    >>> jain([1.0, 0.0])
    0.5
    """
    x = np.asarray(values, dtype=np.float64)
    largest = np.abs(x).max(initial=0.0)
    if largest == 0.0:
        return 1.0  # nobody has anything, and that is even
    x = x / largest  # so that squares of tiny values do not vanish
    return float(x.sum() ** 2 / (x.size * (x @ x)))


@dataclass(frozen=True, slots=True)
class Spread:
    """The four figures of the thesis' chapter 6, and Jain's index."""

    mean: float
    std: float
    iqr: float
    q95_q05: float
    jain: float


def spread(values: npt.ArrayLike) -> Spread:
    x = np.asarray(values, dtype=np.float64)
    q05, q25, q75, q95 = np.quantile(x, [0.05, 0.25, 0.75, 0.95])
    return Spread(float(x.mean()), float(x.std()), float(q75 - q25), float(q95 - q05), jain(x))


def kendall_top_k(
    first: Sequence[Hashable], second: Sequence[Hashable], penalty: float = 0.0
) -> float:
    """Kendall's distance between two top-k lists, 0 (same) to 1 (disjoint).

    Fagin, Kumar and Sivakumar, "Comparing top k lists" (2003), with their parameter p: a pair
    that only one list ranks, and of which the other list has neither, counts ``penalty``.

    >>> kendall_top_k("abc", "abc"), kendall_top_k("ab", "cd")
    (0.0, 1.0)
    """
    rank_1 = {item: place for place, item in enumerate(first)}
    rank_2 = {item: place for place, item in enumerate(second)}
    union = list(dict.fromkeys([*first, *second]))
    distance = sum(_disagree(rank_1, rank_2, i, j, penalty) for i, j in combinations(union, 2))
    worst = len(first) * len(second) + penalty * sum(
        k * (k - 1) / 2 for k in (len(first), len(second))
    )
    return distance / worst if worst else 0.0


def _disagree(
    rank_1: dict[Hashable, int],
    rank_2: dict[Hashable, int],
    i: Hashable,
    j: Hashable,
    penalty: float,
) -> float:
    in_1, in_2 = (i in rank_1, j in rank_1), (i in rank_2, j in rank_2)
    if all(in_1) and all(in_2):
        return float((rank_1[i] < rank_1[j]) != (rank_2[i] < rank_2[j]))
    if all(in_1):  # an item that a list lacks ranks below all that it has
        return _one_sided(rank_1, in_2, i, j, penalty)
    if all(in_2):
        return _one_sided(rank_2, in_1, i, j, penalty)
    return 1.0  # each list has exactly one of the two: they must disagree


def _one_sided(
    rank: dict[Hashable, int],
    other_has: tuple[bool, bool],
    i: Hashable,
    j: Hashable,
    penalty: float,
) -> float:
    if not any(other_has):
        return penalty
    return float((rank[i] < rank[j]) != other_has[0])
