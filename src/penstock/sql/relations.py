"""Describes what stands behind FROM, and the marks that it carries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.hints import hint
from penstock.sql.aggregates import Formula, call
from penstock.sql.grammar import SqlError

WEIGHT, SIC, MISSING, SHOWN = "_weight", "_sic", "_missing", "_shown"
MARKS = (WEIGHT, SIC, MISSING, SHOWN)


@dataclass(frozen=True)
class Source:
    """Describes a table of a query: its gated view, and its event-time column."""

    view: str
    time: str | None = None
    sampled: bool = True
    """False for a table that is no stream."""
    marked: bool = False
    """Its rows carry all marks, as those of a sub-query do."""


@dataclass(frozen=True)
class Relation:
    """Describes one relation of a FROM, or several joined, with expressions for its marks."""

    alias: str
    weight: exp.Expr
    sic: exp.Expr
    missing: exp.Expr
    shown: exp.Expr | None
    estimates: bool
    """Its rows are results of aggregates."""
    sampled: bool
    """Some of it went through a gate."""
    paired: bool = False
    """A tuple may stand in several of its rows."""
    marks: tuple[str, ...] = MARKS
    """The names of its columns that are marks."""

    @classmethod
    def stream(cls, alias: str) -> "Relation":
        """Describes a gated source: its tuples stand for others, whose SIC is missing."""
        weight, sic = exp.column(WEIGHT, table=alias), exp.column(SIC, table=alias)
        missing = sic.copy() * exp.paren(weight.copy() - exp.convert(1.0))
        return cls(alias, weight, sic, missing, None, False, True, marks=(WEIGHT, SIC))

    @classmethod
    def derived(cls, alias: str, estimates: bool, sampled: bool, paired: bool) -> "Relation":
        """Describes a sub-query, which has all marks."""
        weight, sic, missing, shown = (exp.column(name, table=alias or None) for name in MARKS)
        return cls(alias, weight, sic, missing, shown, estimates, sampled, paired)

    @classmethod
    def static(cls, alias: str) -> "Relation":
        """Describes a table that is no stream, and carries no information."""
        one, nothing = exp.convert(1.0), exp.convert(0.0)
        return cls(alias, one, nothing, nothing, None, False, False, marks=())

    def joined(self, other: "Relation") -> "Relation":
        """Describes a join: a pair stands for the product, and has the information of both."""
        if not other.sampled:
            return replace(self, paired=True)
        if not self.sampled:
            return replace(other, paired=True)
        shown = [part.copy() for part in (self.shown, other.shown) if part is not None]
        return Relation(
            alias="",
            weight=self.weight.copy() * other.weight.copy(),
            sic=self.sic.copy() + other.sic.copy(),
            missing=self.missing.copy() + other.missing.copy(),
            shown=exp.and_(*shown) if shown else None,
            estimates=self.estimates and other.estimates,
            sampled=True,
            paired=True,
        )

    def divided(self, by: exp.Expr | None) -> "Relation":
        """Describes the rows copied into so many windows, each with its share of the information.

        None stands for one window.
        """
        if by is None:
            return self
        sic, missing = (Formula(mark) / Formula(by) for mark in (self.sic, self.missing))
        return replace(self, sic=sic.node, missing=missing.node)

    def summed(self, shown: exp.Expr | None) -> list[exp.Expr]:
        """Returns the marks of a group."""
        return _marks(exp.convert(1.0), call("sum", self.sic), call("sum", self.missing), shown)

    def passed(self, shown: exp.Expr | None) -> list[exp.Expr]:
        """Returns the marks of a row that is one of these rows."""
        return _marks(self.weight, self.sic, self.missing, shown)


def _marks(
    weight: exp.Expr, sic: exp.Expr, missing: exp.Expr, shown: exp.Expr | None
) -> list[exp.Expr]:
    seen = exp.true() if shown is None else call("coalesce", shown, exp.false())
    return [
        exp.alias_(call("double", weight), WEIGHT),
        exp.alias_(call("double", sic), SIC),
        exp.alias_(call("double", missing), MISSING),
        exp.alias_(seen, SHOWN),
    ]


def inputs(select: exp.Select) -> list[exp.Expr]:
    """Returns the relations that a SELECT reads, in order."""
    source = select.args.get("from_")
    if source is None:
        raise SqlError("SELECT without FROM: there is nothing to gate")
    return [source.this, *(join.this for join in select.args.get("joins") or [])]


def by_name(sources: Mapping[str, Source], name: str) -> Source:
    """Returns the source of a name, in any case, as Spark does."""
    found = {known.lower(): source for known, source in sources.items()}
    if name.lower() not in found:
        raise SqlError(f"unknown table {name!r}: {hint(name, sources)}")
    return found[name.lower()]
