"""Over which stretch of event time the tuples of one row of a result are spread, by Spark's plan.

Spark replaces ``window(...)`` by a structure of a begin and an end, which is the begin and the
window's length. What is read here is the analysed plan, for which only ``Engine`` asks.
"""

from collections.abc import Iterator
from math import inf
from typing import Any

TIME_WINDOW = "spark.timeWindow"
"""In the metadata of a column that holds time windows."""
WITHOUT_STATE = 0.0
MICROSECONDS_PER_SECOND = 1e6
NEVER_OVER = frozenset(
    {
        *("Join", "TransformWithState", "TransformWithStateInPySpark", "FlatMapGroupsWithState"),
        *("FlatMapGroupsInPandasWithState", "FlatMapGroupsInPandas"),
    }
)
"""Nodes that bring together tuples of any two times, as far as can be seen from outside."""


def nodes(plan: Any) -> Iterator[Any]:
    """A plan and all that is below it."""
    yield plan
    children = plan.children()
    for i in range(children.size()):
        yield from nodes(children.apply(i))


def row_seconds(plan: Any, *, told_once: bool) -> float:
    """Answers the length of the windows that rows are made of, one after the other.

    Infinite where a row has no end: where groups have no window, or one of a session, where all
    rows are told again in every batch (not ``told_once``), or where streams meet; and where
    several streams have a watermark each, since Spark tells the newest event time of only one.
    """
    streaming = [node for node in nodes(plan) if node.isStreaming()]
    names = [str(node.nodeName()) for node in streaming]
    groups = [node for node in streaming if str(node.nodeName()) == "Aggregate"]
    if not groups and NEVER_OVER.isdisjoint(names):
        return WITHOUT_STATE
    if not told_once or not NEVER_OVER.isdisjoint(names):
        return inf
    if names.count("EventTimeWatermark") != 1 or not all(map(_by_window, groups)):
        return inf
    return sum(max(_lengths(node), default=0.0) for node in streaming) or inf


def _by_window(aggregate: Any) -> bool:
    """Says whether one of the columns that an aggregate groups by is a time window."""
    by = _each(aggregate.groupingExpressions())
    return any(_kind(one) == "AttributeReference" and _holds_windows(one) for one in by)


def _holds_windows(column: Any) -> bool:
    return bool(column.metadata().contains(TIME_WINDOW))


def _lengths(node: Any) -> list[float]:
    """Returns the lengths of the windows that a node puts its rows into."""
    found = []
    for expression in _each(node.expressions()):
        struct = expression.child() if _kind(expression) == "Alias" else expression
        if _kind(struct) == "CreateNamedStruct" and struct.children().size() == 4:
            length = _added(struct.children().apply(3))
            if length is not None:
                found.append(length / MICROSECONDS_PER_SECOND)
    return found


def _added(end: Any) -> int | None:
    """Returns what a window's end adds to its begin; None for any other structure."""
    converted = False
    while end.children().size() == 1:
        converted = converted or _kind(end) == "PreciseTimestampConversion"
        end = end.children().apply(0)
    if not converted or _kind(end) != "Add" or _kind(end.children().apply(1)) != "Literal":
        return None
    return int(end.children().apply(1).value())


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _each(expressions: Any) -> Iterator[Any]:
    for i in range(expressions.size()):
        yield expressions.apply(i)
