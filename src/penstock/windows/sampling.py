"""What a window processor sheds: by the concept, evenly, or nothing; one interface."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from penstock.core.types import Bools, Floats, Ints
from penstock.errors import PenstockError
from penstock.windows import quota


def limits(sizes: Floats, goal: Floats) -> Floats:
    """The luck below which ``goal[g]`` tuples of each group are found for certain, or nearly so.

    Six standard deviations and twelve tuples more than asked for; all where that is all.
    """
    enough = goal + 6.0 * np.sqrt(goal) + 12.0
    return np.asarray(np.minimum(enough / np.maximum(sizes, 1.0), 1.0))


def shed(group: Ints, goal: Floats, luck: Floats) -> Bools:
    """Which tuples of a window are kept: ``goal[g]`` of each group, those with the least luck.

    ``luck`` is even in [0, 1), so that is a sample without replacement, and one of a part of the
    window is part of it: a reservoir for every group at once. Broken goals are rounded by chance
    such that their sum stays, and never to nothing: no group is missed.
    """
    if not group.size:
        return np.zeros(0, dtype=np.bool_)
    up_to = np.floor(np.cumsum(goal) + luck.min() * group.size % 1.0)
    whole = np.maximum(np.diff(up_to, prepend=0.0), 1.0)
    order = np.argsort(group + luck)
    counts = np.bincount(group, minlength=goal.size)
    rank = np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.zeros(group.size, dtype=np.bool_)
    kept[order[rank < np.repeat(whole, counts)]] = True
    return kept


class Shedder(Protocol):
    """Called once a window, when its groups' sizes are known.

    Each tuple has its luck, even in [0, 1). ``limits`` says for each group below which luck a
    tuple may be kept at all, and ``choose`` which of those that may are processed.
    """

    name: ClassVar[str]

    def limits(self, sizes: Floats) -> Floats: ...

    def choose(self, sizes: Floats, group: Ints, luck: Floats) -> Bools: ...


@dataclass(frozen=True)
class ByConcept:
    """CoD: the groups' frequencies are the concept, and each group gets its quota."""

    keep: float
    name: ClassVar[str] = "concept"

    def goal(self, sizes: Floats) -> Floats:
        return np.minimum(sizes, quota.level(sizes, self.keep * float(sizes.sum())))

    def limits(self, sizes: Floats) -> Floats:
        return limits(sizes, self.goal(sizes))

    def choose(self, sizes: Floats, group: Ints, luck: Floats) -> Bools:
        return shed(group, self.goal(sizes), luck)


@dataclass(frozen=True)
class Evenly:
    """Every tuple has the same chance, whatever its group."""

    keep: float
    name: ClassVar[str] = "uniform"

    def limits(self, sizes: Floats) -> Floats:
        return np.full(sizes.size, self.keep)

    def choose(self, sizes: Floats, group: Ints, luck: Floats) -> Bools:
        del sizes, group  # it does not look at them
        return np.asarray(luck < self.keep)


@dataclass(frozen=True)
class Nothing:
    """The baseline: the whole window is processed."""

    keep: float = 1.0
    name: ClassVar[str] = "none"

    def limits(self, sizes: Floats) -> Floats:
        return np.ones(sizes.size)

    def choose(self, sizes: Floats, group: Ints, luck: Floats) -> Bools:
        del sizes, luck
        return np.ones(group.size, dtype=np.bool_)


def shedder(name: str, keep: float) -> Shedder:
    kinds: dict[str, type[ByConcept | Evenly | Nothing]] = {
        kind.name: kind for kind in (ByConcept, Evenly, Nothing)
    }
    if name not in kinds:
        raise PenstockError(f"shed: there are {', '.join(kinds)}, not {name!r}")
    if not 0.0 < keep <= 1.0:
        raise PenstockError(f"keep: a share of the window such as 0.03, not {keep}")
    return kinds[name](keep)
