"""Writes a formula over aggregates such that Spark plans, and computes, each of its terms once.

Spark optimizes a query anew in every micro-batch. A column is a tree: a term that a formula uses
ten times stands in it ten times, and an interval, written out, has some thousand nodes, which cost
more than the tuples of a small batch. So formulas are kept as graphs here, whose equal terms are
one. Written down as a column, each aggregate of a formula stands in it once, in a struct, and the
rest is a lambda over that struct; where the rest has terms of its own that are used more than
once, these go into another struct, with another lambda over it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count

from pyspark.sql import Column
from pyspark.sql import functions as sf

AGGREGATES = frozenset(
    {
        *("sum", "max", "var_pop", "var_samp", "stddev_pop", "stddev_samp"),
        *("covar_pop", "covar_samp", "corr"),
    }
)
"""The functions that formulas take over tuples."""
_OPERATORS: Mapping[str, Callable[[Column, Column], Column]] = {
    "+": Column.__add__,
    "-": Column.__sub__,
    "*": Column.__mul__,
    "/": Column.__truediv__,
    ">": Column.__gt__,
}


@dataclass(frozen=True, eq=False, slots=True)
class SharedTerm:
    """Is one term of a formula, as often as it is used; equal terms of one graph are the same."""

    terms: "SharedTerms" = field(repr=False)
    name: str
    arguments: "tuple[SharedTerm, ...]" = ()
    column: Column | None = None
    """Of a term that is a column or a constant."""

    def __add__(self, other: "SharedTerm | float") -> "SharedTerm":
        return self._with("+", other)

    def __sub__(self, other: "SharedTerm | float") -> "SharedTerm":
        return self._with("-", other)

    def __mul__(self, other: "SharedTerm | float") -> "SharedTerm":
        return self._with("*", other)

    def __truediv__(self, other: "SharedTerm | float") -> "SharedTerm":
        return self._with("/", other)

    def __gt__(self, other: "SharedTerm | float") -> "SharedTerm":
        return self._with(">", other)

    def _with(self, operator: str, other: "SharedTerm | float") -> "SharedTerm":
        right = other if isinstance(other, SharedTerm) else self.terms.literal(other)
        return self.terms.call(operator, self, right)

    @property
    def is_aggregate(self) -> bool:
        """Says whether the term is taken over the tuples of a group."""
        return self.name in AGGREGATES

    def rests_on(self, other: "SharedTerm") -> bool:
        """Says whether another term is in this one."""
        return self is other or any(each.rests_on(other) for each in self.arguments)


class SharedTerms:
    """Is the algebra of one formula, whose expressions are the nodes of a graph."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], SharedTerm] = {}
        self._given = count()

    def call(self, name: str, *arguments: SharedTerm) -> SharedTerm:
        """Returns the term that calls a function of Spark SQL, or an operator."""
        key = (name, *map(id, arguments))
        return self._known.setdefault(key, SharedTerm(self, name, arguments))

    def literal(self, value: float | None) -> SharedTerm:
        """Returns a constant."""
        key = ("literal", type(value), value)
        return self._known.setdefault(key, SharedTerm(self, "literal", column=sf.lit(value)))

    def given(self, column: Column) -> SharedTerm:
        """Returns the term for a column that formulas do not look into."""
        return SharedTerm(self, f"given {next(self._given)}", column=column)


def written_out(term: SharedTerm, instead: Mapping[SharedTerm, Column] | None = None) -> Column:
    """Returns a term as one expression, which repeats what it uses more than once.

    ``instead`` has columns that stand for terms.
    """
    columns = dict(instead or {})

    def write(each: SharedTerm) -> Column:
        if each not in columns:
            columns[each] = each.column if each.column is not None else _called(each, write)
        return columns[each]

    return write(term)


def _called(term: SharedTerm, write: Callable[[SharedTerm], Column]) -> Column:
    arguments = [write(argument) for argument in term.arguments]
    operator = _OPERATORS.get(term.name)
    return operator(*arguments) if operator else sf.call_function(term.name, *arguments)


def aggregates_of(term: SharedTerm) -> list[SharedTerm]:
    """Returns the aggregates that a term is made of, each once."""
    return [each for each in _parts_first([term]) if each.is_aggregate]


def struct_of(answers: Mapping[str, SharedTerm]) -> Column:
    """Returns a struct of terms, which share what they are made of."""
    made = list(_parts_first(answers.values()))
    leaves = [term for term in made if term.is_aggregate or term.column is not None]
    often = _more_than_once(answers.values(), *map(_parts, made)) - set(leaves)
    stages = [[term for term in leaves if term.name != "literal"]]
    depth: dict[SharedTerm, int] = {}
    for term in made:
        depth[term] = max((depth[part] for part in _parts(term)), default=0) + (term in often)
        if term in often:
            stages += [[]] * (depth[term] + 1 - len(stages))
            stages[depth[term]] = [*stages[depth[term]], term]
    return _in_stages(stages, answers, {})


def _parts_first(roots: Iterable[SharedTerm]) -> Iterator[SharedTerm]:
    """Yields the terms of a formula over aggregates, each once and after all that it is made of."""
    seen: set[SharedTerm] = set()

    def visit(term: SharedTerm) -> Iterator[SharedTerm]:
        if term in seen:
            return
        seen.add(term)
        for part in _parts(term):
            yield from visit(part)
        yield term

    for root in roots:
        yield from visit(root)


def _parts(term: SharedTerm) -> tuple[SharedTerm, ...]:
    return () if term.is_aggregate else term.arguments


def _more_than_once(*uses: Iterable[SharedTerm]) -> set[SharedTerm]:
    seen: set[SharedTerm] = set()
    again: set[SharedTerm] = set()
    for term in chain(*uses):
        (again if term in seen else seen).add(term)
    return again


def _in_stages(
    stages: list[list[SharedTerm]],
    answers: Mapping[str, SharedTerm],
    known: Mapping[SharedTerm, Column],
) -> Column:
    """Returns the answers as a struct, after one lambda for each stage."""
    if not stages:
        return sf.struct(*(written_out(term, known).alias(name) for name, term in answers.items()))
    stage = {term: f"{len(stages)}_{place}" for place, term in enumerate(stages[0])}
    bound = sf.struct(*(written_out(term, known).alias(name) for term, name in stage.items()))

    def rest(x: Column) -> Column:
        more = {term: x[name] for term, name in stage.items()}
        return _in_stages(stages[1:], answers, {**known, **more})

    return sf.get(sf.transform(sf.array(bound), rest), sf.lit(0))
