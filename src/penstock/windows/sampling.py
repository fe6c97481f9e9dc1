"""What a window processor sheds: by the concept, evenly, or nothing; one interface."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from penstock.core.types import Bools, Floats, Ints
from penstock.errors import PenstockError
from penstock.windows import quota

QUOTAS = ("equal", "proportional")
"""How groups may share what is processed of a window."""


def limits(sizes: Floats, goal: Floats) -> Floats:
    """Answers the draw below which ``goal[g]`` tuples of each group are found almost certainly.

    It leaves room for six standard deviations and twelve tuples more than asked for.
    """
    enough = goal + 6.0 * np.sqrt(goal) + 12.0
    return np.asarray(np.minimum(enough / np.maximum(sizes, 1.0), 1.0))


def shed(group: Ints, goal: Floats, draw: Floats) -> Bools:
    """Marks the tuples of a window that stay: ``goal[g]`` of each group, those with least draw.

    A ``draw`` is even in [0, 1), so that is a sample without replacement, and one of a part of the
    window is part of it: a reservoir for every group at once. Goals that are not whole are rounded
    by chance such that their sum stays, and never to nothing: no group is missed.
    """
    if not group.size:
        return np.zeros(0, dtype=np.bool_)
    up_to = np.floor(np.cumsum(goal) + draw.min() * group.size % 1.0)
    whole = np.maximum(np.diff(up_to, prepend=0.0), 1.0)
    order = np.argsort(group + draw)
    counts = np.bincount(group, minlength=goal.size)
    rank = np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    stays = np.zeros(group.size, dtype=np.bool_)
    stays[order[rank < np.repeat(whole, counts)]] = True
    return stays


NO_NAMES = np.zeros(0, dtype=np.str_)
BETWEEN_SIDES = "\x1f"
"""Stands between the name of a group and that of the joined stream, in a name of both."""


@dataclass(frozen=True)
class WindowConcept:
    """What is known of a window's groups when it has ended: CoD's C_w."""

    sizes: Floats
    """How many tuples of each group came."""
    number: Floats = field(default_factory=lambda: np.zeros(0))
    """Of those, how many had a value; this and the next two only where a value is looked at."""
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    squares: Floats = field(default_factory=lambda: np.zeros(0))
    """Squared distances from the group's mean, summed."""
    names: npt.NDArray[Any] = field(default_factory=lambda: NO_NAMES)


class Shedder(Protocol):
    """Chooses the tuples of a window; called once a window, when its concept is known.

    Each tuple has a draw, even in [0, 1). ``limits`` says for each group below which draw a
    tuple may be processed at all, and ``choose`` which of those that may are processed.
    """

    name: ClassVar[str]

    def limits(self, concept: WindowConcept) -> Floats: ...

    def choose(self, concept: WindowConcept, group: Ints, draw: Floats) -> Bools: ...


@dataclass(frozen=True)
class ByConcept:
    """CoD: the groups' frequencies are the concept, and each group gets its quota."""

    keep: float
    by: str = "equal"
    """Whether quotas are "equal", or "proportional" to the groups' frequencies."""
    name: ClassVar[str] = "concept"

    def goal(self, sizes: Floats) -> Floats:
        """Answers how many tuples of each group are to be processed."""
        return self.of_budget(sizes, self.keep * float(sizes.sum()))

    def of_budget(self, sizes: Floats, budget: float) -> Floats:
        """Answers how the groups share so many tuples."""
        if self.by == "proportional":
            return quota.proportional(sizes, budget)
        return np.minimum(sizes, quota.level(sizes, budget))

    def limits(self, concept: WindowConcept) -> Floats:
        return limits(concept.sizes, self.goal(concept.sizes))

    def choose(self, concept: WindowConcept, group: Ints, draw: Floats) -> Bools:
        return shed(group, self.goal(concept.sizes), draw)


@dataclass(frozen=True)
class ByJoin:
    """CoD for an equi-join (section VI-C.3): a key counts that is on both streams.

    The concept is a histogram of each stream. Keys of their intersection get quotas, the same on
    both streams; the others form no result, and nothing of them is kept.

    >>> names = np.array([BETWEEN_SIDES.join(each) for each in ("a1", "a2", "b1")])
    >>> ByJoin(0.25).goal(WindowConcept(np.array([8.0, 2.0, 9.0]), names=names)).tolist()
    [2.75, 2.0, 0.0]
    """

    keep: float
    by: str = "equal"
    name: ClassVar[str] = "concept"

    def goal(self, concept: WindowConcept) -> Floats:
        """Answers how many tuples of each key and stream are to be processed."""
        both = matched(concept.names)
        budget = self.keep * float(concept.sizes.sum())
        goal = np.zeros(concept.sizes.size)
        goal[both] = ByConcept(1.0, self.by).of_budget(concept.sizes[both], budget)
        return goal

    def limits(self, concept: WindowConcept) -> Floats:
        return np.where(matched(concept.names), limits(concept.sizes, self.goal(concept)), 0.0)

    def choose(self, concept: WindowConcept, group: Ints, draw: Floats) -> Bools:
        return shed(group, self.goal(concept), draw)


def sides(names: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Ints]:
    """Answers the keys of a join, and which of them each name of key and stream has."""
    keys = np.array([str(name).rpartition(BETWEEN_SIDES)[0] for name in names.tolist()])
    found, place = np.unique(keys, return_inverse=True)
    return found, place


def matched(names: npt.NDArray[Any]) -> Bools:
    """Marks the names of keys that are on two streams or more."""
    found, place = sides(names)
    return np.asarray(np.bincount(place, minlength=found.size)[place] > 1)


@dataclass(frozen=True)
class ByAccuracy:
    """CoD for a mean (section VI-C.1): its spread in the window says how many tuples it takes.

    Each group gets as many as bring the mean of its values within a relative error.
    """

    error: float
    confidence: float = 0.95
    name: ClassVar[str] = "concept"

    def goal(self, concept: WindowConcept) -> Floats:
        """Answers how many tuples of each group are to be processed."""
        spread = quota.spread(concept.number, concept.mean, concept.squares)
        return quota.sample_sizes(concept.sizes, spread, self.error, self.confidence)

    def limits(self, concept: WindowConcept) -> Floats:
        return limits(concept.sizes, self.goal(concept))

    def choose(self, concept: WindowConcept, group: Ints, draw: Floats) -> Bools:
        return shed(group, self.goal(concept), draw)


@dataclass(frozen=True)
class Evenly:
    """A rival: every tuple has the same chance, whatever its group."""

    keep: float
    name: ClassVar[str] = "uniform"

    def limits(self, concept: WindowConcept) -> Floats:
        return np.full(concept.sizes.size, self.keep)

    def choose(self, concept: WindowConcept, group: Ints, draw: Floats) -> Bools:
        del concept, group  # it does not look at them
        return np.asarray(draw < self.keep)


@dataclass(frozen=True)
class Nothing:
    """The baseline: the whole window is processed."""

    keep: float = 1.0
    name: ClassVar[str] = "none"

    def limits(self, concept: WindowConcept) -> Floats:
        return np.ones(concept.sizes.size)

    def choose(self, concept: WindowConcept, group: Ints, draw: Floats) -> Bools:
        del concept, draw
        return np.ones(group.size, dtype=np.bool_)


def shedder(name: str, keep: float, by: str = "equal") -> Shedder:
    """Answers the shedder of this name that processes this share of a window."""
    kinds: dict[str, type[ByConcept | Evenly | Nothing]] = {
        kind.name: kind for kind in (ByConcept, Evenly, Nothing)
    }
    if name not in kinds:
        raise PenstockError(f"shed must be one of {', '.join(kinds)}; got {name!r}")
    if not 0.0 < keep <= 1.0:
        raise PenstockError(f"keep must be a share of the window, such as 0.03; got {keep}")
    if by not in QUOTAS:
        raise PenstockError(f"by must be one of {', '.join(QUOTAS)}; got {by!r}")
    return ByConcept(keep, by) if name == ByConcept.name else kinds[name](keep)
