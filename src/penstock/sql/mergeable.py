"""Says how partial results of each aggregate are merged; ``_weight`` is that of a partial result.

Sums merge as weighted sums: a partial result of weight W stands for W of its kind. The others are
of what was admitted, as they are without parts.
"""

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.aggregates import call, name_of
from penstock.sql.grammar import SqlError
from penstock.sql.pieces import unfiltered
from penstock.sql.relations import WEIGHT


class UnmergeableError(SqlError):
    """Says why a query cannot be computed from partial results."""


@dataclass(frozen=True)
class Merge:
    """Says what a leaf computes, how its results merge, and what is told of the merged one."""

    leaf: exp.Expr
    merged: exp.Expr
    told: exp.Expr


SAME = ("min", "max", "bool_and", "bool_or", "every", "some", "bit_and", "bit_or", "bit_xor")
"""Aggregates of which those of parts make up the whole."""
ANY_OF = ("first", "first_value", "any_value", "last", "last_value")
"""Of a stream, which has no order; a part without one says nothing."""
LISTS = ("collect_list", "array_agg")
BY = ("max_by", "min_by")


def merge_of(aggregate: exp.Expr, part: str) -> Merge:
    """Returns how an aggregate merges whose partial results are in the column ``part``."""
    bare = (
        aggregate.this if isinstance(aggregate, exp.IgnoreNulls | exp.RespectNulls) else aggregate
    )
    inner, condition = unfiltered(bare)
    name = _name(inner)
    column = exp.column(part)
    weighed = exp.column(WEIGHT) * exp.column(part)
    if name == "sum":
        return Merge(aggregate, call("sum", weighed), column)
    if name == "count":  # of rows that are there: whether a group has any that is shown
        return Merge(aggregate, call("sum", column), column)
    if name == "max" and _is_weight(inner):
        return Merge(aggregate, call("max", weighed), column)
    if name == "any":
        return Merge(aggregate, call("bool_or", column), column)
    if name in SAME:
        return Merge(aggregate, call(name, column), column)
    if name in ANY_OF:
        return Merge(aggregate, call(name, column, exp.true()), column)
    if name in LISTS:
        return Merge(aggregate, _joined(column), column)
    if name == "collect_set":
        return Merge(aggregate, call("array_distinct", _joined(column)), column)
    if name in BY:
        return _by(name, inner, condition, part)
    raise UnmergeableError(f"{name} cannot be merged from partial results")


def _name(node: exp.Expr) -> str:
    """Returns the name of an aggregate, also of one that only rewritten forms are made of."""
    return name_of(node) or str(node.this).lower()


def _is_weight(maximum: exp.Expr) -> bool:
    """Says whether this is the largest weight, which is above 1 where something was shed."""
    (argument,) = maximum.expressions
    return isinstance(argument, exp.Column) and argument.name == WEIGHT


def _joined(column: exp.Expr) -> exp.Expr:
    return call("flatten", call("collect_list", column))


def _by(name: str, aggregate: exp.Expr, condition: exp.Expr | None, part: str) -> Merge:
    """Merges the first, or the first k, by an order, which a part has to send along."""
    value, order, *most = aggregate.expressions
    both = call("named_struct", exp.convert("o"), order, exp.convert("v"), value)
    leaf = call(name, both, order, *most)
    if condition is not None:
        leaf = exp.Filter(this=leaf, expression=exp.Where(this=condition.copy()))
    told = exp.column("v", table=part)
    if not most:
        return Merge(leaf, call(name, exp.column(part), exp.column("o", table=part)), told)
    ascending = exp.convert(name == "min_by")
    ordered = call("sort_array", _joined(exp.column(part)), ascending)
    return Merge(leaf, call("slice", ordered, exp.convert(1), *most), told)
