"""Computes what several answers need once, in a SELECT of its own below them.

Spark keeps a column of a sub-query that is used more than once; written out wherever it is used,
the interval of one mean would be a text of a hundred kilobytes.
"""

from collections.abc import Mapping

from sqlglot import exp

from penstock.estimates_over_parts import KEPT
from penstock.sql.aggregates import Formula, SqlAlgebra

KEPT_PREFIX = "_kept_"


class KeepingAlgebra(SqlAlgebra):
    """Builds formulas that name what is kept; ``kept`` has what the names stand for."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        """Tells the names of one interval from those of another."""
        self.kept: dict[str, exp.Expr] = {}

    def call(self, name: str, *arguments: Formula) -> Formula:
        """Calls a function of Spark SQL, or keeps the argument."""
        if name != KEPT:
            return super().call(name, *arguments)
        kept = f"{KEPT_PREFIX}{self.owner}_{len(self.kept)}"
        self.kept[kept] = arguments[0].node
        return Formula(exp.column(kept))


def in_stages(
    answers: list[exp.Expr], kept: Mapping[str, exp.Expr], source: exp.Select
) -> exp.Select:
    """Returns the SELECT of these answers over ``source``, with a stage for what others need."""
    left = dict(kept)
    while left:
        ready = {name: body for name, body in left.items() if not _names(body) & left.keys()}
        columns = (exp.alias_(body, name) for name, body in ready.items())
        source = exp.select("*", *columns).from_(_below(source))
        left = {name: body for name, body in left.items() if name not in ready}
    return exp.select(*answers).from_(_below(source))


def _names(body: exp.Expr) -> set[str]:
    return {column.name for column in body.find_all(exp.Column)}


def _below(source: exp.Select) -> exp.Subquery:
    return exp.Subquery(this=source, alias=exp.TableAlias(this=exp.to_identifier("below")))
