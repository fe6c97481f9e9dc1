"""What operator and load shedder tell each other (LAS, figure 1, B, D and E)."""

from dataclasses import dataclass

from penstock.guard.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Matrices:
    """Is message B: the operator's ⟨F, W⟩, once they are stable.

    ``scale`` is what the last tuples took over what these matrices say of them: costs may just have
    changed. Published LAS has no use for it.
    """

    sketch: Sketch
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """Is message D: the shedder's Ĉ, which travels with a tuple that was not dropped.

    ``work`` and ``wait`` are what the tuples since the last request cost by the matrices, and were
    taken to wait, in sum; published LAS has no use for them.
    """

    total: float
    work: float = 0.0
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """Is message E: the skew Δ = C - Ĉ, when the tuple with the request was done.

    ``work`` and ``tuples`` are what the operator executed since its last reply, ``estimated`` what
    the matrices said of it, and ``late`` how much longer these tuples waited than it foresaw, in
    sum; published LAS has no use for them.
    """

    skew: float
    work: float = 0.0
    estimated: float = 0.0
    tuples: int = 0
    late: float = 0.0


Message = Matrices | Reply
