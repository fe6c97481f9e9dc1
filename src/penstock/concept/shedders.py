"""What a window processor sheds: by the concept, evenly, or nothing; one interface."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from penstock.concept import quota
from penstock.concept.two_pass import limits, shed
from penstock.types import Bools, Floats, Ints, PenstockError


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
