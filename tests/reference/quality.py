"""SIC: how much of the perfect result a tuple carries, and what becomes of it on the way.

A source tuple is worth ``1 / (n_s · |S|)`` (THEMIS, equation 1). An operator hands on exactly
what it received, spread evenly over what it emits (equation 3), even if it emits nothing: then
an *empty batch* carries the value (thesis, assumption 6). What one operator sends to several
consumers is divided between them; a split sends each tuple to only one and divides nothing
(assumption 9). So a result's SIC falls by exactly what was shed or lost, and by nothing else.

Values may be floats or ``fractions.Fraction``; with fractions every figure is exact.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter

from penstock.errors import PenstockError

Number = Fraction | float
RESULT = "result"


@dataclass(frozen=True, slots=True)
class Flow:
    """Tuples on one edge and the SIC that they carry together."""

    tuples: int
    sic: Number

    @property
    def each(self) -> Number:
        """The SIC of one tuple."""
        return self.sic / self.tuples if self.tuples else self.sic * 0

    def shed(self, lost: int) -> "Flow":
        """Without ``lost`` of its tuples. An empty batch has nothing to shed."""
        if not 0 <= lost <= self.tuples:
            raise ValueError(f"cannot shed {lost} of {self.tuples} tuples")
        return Flow(self.tuples - lost, self.sic - lost * self.each)

    def split(self, parts: Iterable[int]) -> list["Flow"]:
        """A partition: every tuple goes to one consumer and keeps its value."""
        sizes = list(parts)
        if sum(sizes) != self.tuples:
            raise ValueError(f"parts of {sum(sizes)} tuples do not partition {self.tuples}")
        if not self.tuples:  # an empty batch cannot say which consumer it was for
            return self.fan_out(len(sizes))
        return [Flow(size, size * self.each) for size in sizes]

    def fan_out(self, consumers: int) -> list["Flow"]:
        """A copy for each consumer, each worth its share."""
        return [Flow(self.tuples, self.sic / consumers)] * consumers


def source_sic(tuples_in_stw: int, sources: int) -> Fraction:
    """What one tuple of a source is worth to a query with so many sources."""
    return Fraction(1, tuples_in_stw * sources)


def emit(inputs: Iterable[Flow], out: int) -> Flow:
    """Over one atomic unit: ``out`` tuples with all the value that came in."""
    return Flow(out, sum((flow.sic for flow in inputs), start=Fraction(0)))


Emitted = Callable[[list[int]], int]


def same(inputs: list[int]) -> int:
    """A map, or a union: as many come out as went in."""
    return sum(inputs)


def exactly(out: int) -> Emitted:
    """An aggregate with so many groups, a filter with so many survivors, a join's matches.

    Where nothing goes in, nothing comes out.
    """
    return lambda inputs: out if any(inputs) else 0


def at_most(out: int) -> Emitted:
    """A top-k: k of them, or all there are."""
    return lambda inputs: min(out, sum(inputs))


@dataclass(frozen=True, slots=True)
class Operator:
    """A black box: where its tuples come from and how many it makes of them.

    ``parts`` makes it a split: consumer i, in the order they were added, gets ``parts[i]``.
    ``result`` makes its output a result too, whoever else consumes it.
    """

    inputs: tuple[str, ...]
    emitted: Emitted = same
    parts: tuple[int, ...] | None = None
    result: bool = False


@dataclass(frozen=True)
class Query:
    """A DAG of sources and operators, and what a perfect STW brings.

    >>> q = Query({"s": 4}, {"avg": Operator(("s",), exactly(1))})
    >>> q.sic(), q.sic(shed={("s", "avg"): 1})
    (Fraction(1, 1), Fraction(3, 4))
    """

    sources: Mapping[str, int]
    operators: Mapping[str, Operator]

    def __post_init__(self) -> None:
        known = set(self.sources) | set(self.operators)
        for name, operator in self.operators.items():
            if missing := [i for i in operator.inputs if i not in known]:
                raise PenstockError(f"operator {name!r} reads {missing[0]!r}, which is not there")
        if both := set(self.sources) & set(self.operators):
            raise PenstockError(f"{both.pop()!r} is both a source and an operator")
        try:
            self._order()
        except CycleError as cycle:
            raise PenstockError(f"a query has no cycles, but {cycle.args[1]} is one") from None

    def flows(
        self, shed: Mapping[tuple[str, str], int] | None = None
    ) -> dict[tuple[str, str], Flow]:
        """What travels on every edge ``(from, to)``; results travel to ``"result"``.

        ``shed`` says how many tuples are lost on an edge before its consumer sees them.
        """
        losses = dict(shed or {})
        edges: dict[tuple[str, str], Flow] = {}
        for name in self._order():
            for consumer, flow in self._outputs(name, edges):
                edge = (name, consumer)
                edges[edge] = flow.shed(losses.pop(edge, 0))
        if losses:
            raise PenstockError(f"there is no edge {next(iter(losses))} to shed from")
        return edges

    def sic(self, shed: Mapping[tuple[str, str], int] | None = None) -> Number:
        """The query's SIC: what all its results carry together (equation 4)."""
        return sum(
            (flow.sic for (_, to), flow in self.flows(shed).items() if to == RESULT),
            start=Fraction(0),
        )

    def _order(self) -> list[str]:
        graph = {name: operator.inputs for name, operator in self.operators.items()}
        return list(TopologicalSorter({**dict.fromkeys(self.sources, ()), **graph}).static_order())

    def _outputs(self, name: str, edges: Mapping[tuple[str, str], Flow]) -> list[tuple[str, Flow]]:
        consumers = [to for to, operator in self.operators.items() if name in operator.inputs]
        if name in self.sources:
            tuples = self.sources[name]
            made = Flow(tuples, Fraction(1, len(self.sources)))
            return list(zip(consumers, made.fan_out(len(consumers)), strict=True))
        operator = self.operators[name]
        arriving = [edges[source, name] for source in operator.inputs]
        made = emit(arriving, operator.emitted([flow.tuples for flow in arriving]))
        if operator.result or not consumers:
            consumers = [*consumers, RESULT]
        if operator.parts is not None:
            return list(zip(consumers, made.split(operator.parts), strict=True))
        return list(zip(consumers, made.fan_out(len(consumers)), strict=True))
