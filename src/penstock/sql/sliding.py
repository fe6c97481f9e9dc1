"""Counts the sliding windows that a tuple falls into, between which its SIC is divided.

Spark copies a tuple into every window that it falls into. Each copy carries an even share of the
tuple's SIC (THEMIS, section 6), so that all windows together have what came in (law 2).
"""

from sqlglot import exp

from penstock.errors import PenstockError
from penstock.sql.aggregates import call
from penstock.sql.grammar import SqlError, text
from penstock.units import seconds

MICROSECONDS_PER_SECOND = 1e6


def windows_of_tuple(select: exp.Select) -> exp.Expr | None:
    """Returns the number of windows that a tuple falls into; None where it falls into one.

    Where a window is no multiple of its slide, the number is one more for tuples that come soon
    after a window has begun.
    """
    window = _sliding_window(select)
    if window is None:
        return None
    time = window.expressions[0]
    length, slide, start = span_of(window)
    if slide == 0 or length <= slide:  # it tumbles, or Spark refuses it and says why
        return None
    if length % slide == 0:
        return exp.convert(float(length // slide))
    if isinstance(time, exp.Column) and time.name.lower() == "window":
        raise SqlError(
            f"{text(window)}: a window of windows must be a multiple of its slide, such as "
            "'10 minutes' of '5 minutes'"
        )
    moment = call("unix_micros", call("timestamp", time)) - exp.convert(start)
    since_begin = call("pmod", moment, exp.convert(slide))
    return call("ceil", exp.paren(exp.convert(length) - since_begin) / exp.convert(slide))


def span_of(window: exp.Expr) -> tuple[int, int, int]:
    """Returns the length of a window, its slide, and the time that windows start from, in µs."""
    given = [_microseconds(literal) for literal in window.expressions[1:]]
    length = given[0]
    slide, start = (*given[1:], *(length, 0)[len(given) - 1 :])[:2]
    return length, slide, start


def _sliding_window(select: exp.Select) -> exp.Anonymous | None:
    """Returns the window, of which Spark allows a SELECT one, if it has a slide."""
    mine = (node for node in select.find_all(exp.Anonymous) if node.parent_select is select)
    sliding = (
        node for node in mine if str(node.this).lower() == "window" and len(node.expressions) > 2
    )
    return next(sliding, None)


def _microseconds(literal: exp.Expr) -> int:
    """Reads a duration as Spark does, to which a bare number is microseconds."""
    if literal.is_int:
        return int(literal.name)
    try:
        return round(seconds(literal.name) * MICROSECONDS_PER_SECOND)
    except PenstockError:
        raise SqlError(
            f"a window must have durations, such as '10 minutes'; got {text(literal)}"
        ) from None
