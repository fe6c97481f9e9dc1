"""Finds the windows of a query, and the column of its results that tells them apart."""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf
from sqlglot import exp

from penstock.errors import PenstockError
from penstock.jobs.load import LoadedJob
from penstock.sql.grammar import parse_rewritten, text
from penstock.sql.sliding import span_of

MICROS = 1_000_000


@dataclass(frozen=True)
class WindowShape:
    """Describes the windows of a query; times are microseconds since the epoch."""

    source: str
    """The stream whose tuples are in the windows."""
    time: str
    """Its event-time column."""
    length: int
    slide: int
    offset: int
    """The time that windows start from."""
    column: str
    """Of the results."""
    holds: str
    """What the column has of the window: its ``start``, its ``end``, or ``window``, both."""

    def bucket(self) -> Column:
        """Returns the latest start of a window that a tuple falls into; null without a time."""
        moment = sf.unix_micros(sf.col(f"`{self.time}`")) - sf.lit(self.offset)
        return (moment - sf.pmod(moment, sf.lit(self.slide)) + self.offset).cast("bigint")

    def starts_of(self, bucket: int) -> range:
        """Answers the windows that tuples of a bucket may fall into, by their starts.

        >>> list(WindowShape("s", "t", 10, 5, 0, "start", "start").starts_of(20))
        [20, 15]
        """
        return range(bucket, bucket - self.length, -self.slide)

    def start(self) -> Column:
        """Returns the start of a row's window, from the results."""
        column = sf.col(f"`{self.column}`")
        told = column["start"] if self.holds == "window" else column
        return sf.unix_micros(told) - (self.length if self.holds == "end" else 0)


def only_stream(loaded: LoadedJob, query: str) -> str:
    """Names the stream that a query reads; raises where it reads several, or one twice."""
    rewritten = loaded.queries[query]
    gated = [name for name in rewritten.sources if not loaded.job.sources[name].static]
    tree = parse_rewritten(rewritten.plain)
    tables = [table.name for table in tree.find_all(exp.Table) if table.name in gated]
    if rewritten.counted is not None:  # its table has another name, and there is no other
        tables = gated
    if len(tables) != 1:
        raise PenstockError(
            f"{query}: only a query that reads one stream, once, can be settled; this one reads "
            f"{', '.join(tables)}"
        )
    return tables[0]


def window_shape(loaded: LoadedJob, query: str) -> WindowShape:
    """Describes the windows of a query; raises with the reason where it cannot be settled."""
    source = only_stream(loaded, query)
    tree = parse_rewritten(loaded.queries[query].plain)
    calls = {text(call).lower(): call for call in _calls(tree, "window") if call.expressions[1:]}
    if len(calls) != 1 or _calls(tree, "session_window") or not isinstance(tree, exp.Select):
        raise PenstockError(
            f"{query}: only a query that groups by one time window can be settled, such as GROUP "
            "BY window(time, '1 minute'); with --shed-to, what was shed can be had of any"
        )
    (call,) = calls.values()
    time = loaded.job.sources[source].event_time
    if call.parent_select is not tree or any(tree.find_all(exp.Subquery, exp.CTE)):
        raise PenstockError(f"{query}: a query with windows in a sub-query cannot be settled")
    if not isinstance(call.expressions[0], exp.Column) or call.expressions[0].name != time:
        raise PenstockError(
            f"{query}: its windows must go by the time of {source}, {time}; got {text(call)}"
        )
    length, slide, offset = span_of(call)
    column, holds = _shown(tree, query)
    assert time is not None
    return WindowShape(source, time, length, slide or length, offset, column, holds)


def _calls(tree: exp.Expr, name: str) -> list[exp.Anonymous]:
    return [call for call in tree.find_all(exp.Anonymous) if str(call.this).lower() == name]


def _shown(select: exp.Select, query: str) -> tuple[str, str]:
    """Answers the column that tells a result's window, and what it has of it."""
    for item in select.expressions:
        body = item.unalias()
        if isinstance(body, exp.Anonymous) and str(body.this).lower() == "window":
            return (item.alias or "window", "window")
        if isinstance(body, exp.Column) and not body.table and body.name.lower() == "window":
            return (item.alias or body.name, "window")
        if isinstance(body, exp.Column | exp.Dot) and body.name.lower() in ("start", "end"):
            of = body.table if isinstance(body, exp.Column) else text(body.this)
            if of.lower().startswith("window"):
                return (item.alias or body.name, body.name.lower())
    raise PenstockError(
        f"{query}: its results do not tell their windows, so that nobody knows which rows to "
        "replace: add window.start to its SELECT"
    )
