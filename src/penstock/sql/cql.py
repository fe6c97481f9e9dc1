"""Writes CQL's windows as Spark does.

``FROM Src[Range 15 min Slide 5 min]`` means that the query is answered for each such window of the
source's event time. One windowed source: ``GROUP BY window(time, '15 minute', '5 minute')``.
Several: each tuple is put into its windows first, and tuples meet within one window.
THEMIS writes conditions on tuples behind HAVING (table 1); here as there they are conditions.

``FROM Src[Rows 100 Slide 20]`` means windows of so many rows, for which Spark has no function: the
query reads another table instead, of the same tuples with a column ``window`` (see ``Counted``).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.aggregates import name_of
from penstock.sql.grammar import RANGE, Range, Rows, SqlError

WINDOW_FUNCTIONS = ("window", "session_window")


@dataclass(frozen=True)
class Counted:
    """Is a table that has the tuples of a source in windows of rows."""

    name: str
    source: str
    windows: Rows


def counted(tree: exp.Query) -> Counted | None:
    """Returns the source that the query reads in windows of rows, if it does; renames the table.

    It must read nothing else that streams, since windows of rows and of time end by other clocks.
    """
    tables = list(tree.find_all(exp.Table))
    mine = [table for table in tables if isinstance(table.meta.get(RANGE), Rows)]
    if not mine:
        return None
    select = mine[0].parent_select
    rows: Rows = mine[0].meta.pop(RANGE)
    said = f"{mine[0].name}{rows.text}"
    calls = {str(call.this).lower() for call in tree.find_all(exp.Anonymous)}
    others = len(mine) > 1 or any(RANGE in table.meta for table in tables)
    if others or not calls.isdisjoint(WINDOW_FUNCTIONS):
        raise SqlError(f"{said}: a query with a window of rows can have no other window")
    if not isinstance(select, exp.Select) or len(_from(select)) != 1:
        raise SqlError(f"{said}: rows are counted before a join; aggregate them in a sub-query")
    _check_aggregate(select, said)
    _move_having(select)
    alias, source = mine[0].alias_or_name, mine[0].name
    by = [exp.column(name, table=alias) for name in ("window", *rows.partition)]
    group = select.args.get("group") or exp.Group()
    named = {str(term.name).lower() for term in by}
    more = [
        term
        for term in group.expressions
        if not (isinstance(term, exp.Column) and term.name.lower() in named)
    ]
    group.set("expressions", [*by, *more])
    select.set("group", group)
    mine[0].set("this", exp.to_identifier(said, quoted=True))
    mine[0].set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return Counted(said, source, rows)


def expand(tree: exp.Query, times: Mapping[str, str | None]) -> exp.Query:
    """Returns the query without CQL's windows; ``times`` has each source's event-time column."""
    for select in list(tree.find_all(exp.Select)):
        tables = [item for item in _from(select) if isinstance(item, exp.Table)]
        windowed = [table for table in tables if RANGE in table.meta]
        if windowed:
            _move_having(select)
            if len(_from(select)) == 1:
                _group_by_window(select, windowed[0], times)
            else:
                _meet_in_windows(select, windowed, times)
    return tree


def _from(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    joined = [join.this for join in select.args.get("joins") or []]
    return ([source.this] if source else []) + joined


def _group_by_window(select: exp.Select, table: exp.Table, times: Mapping[str, str | None]) -> None:
    """Groups by a window, which needs an aggregate to be answered for each window."""
    _check_aggregate(select, f"{table.name}[Range ...]")
    call = _window(table, times, qualified=True)
    group = select.args.get("group") or exp.Group()
    group.set("expressions", [call, *group.expressions])
    select.set("group", group)


def _check_aggregate(select: exp.Select, said: str) -> None:
    if not any(name_of(node) for node in select.find_all(exp.Anonymous)):
        raise SqlError(f"{said}: a window needs an aggregate, such as avg(x)")


def _meet_in_windows(
    select: exp.Select, tables: list[exp.Table], times: Mapping[str, str | None]
) -> None:
    names = [table.alias_or_name for table in tables]
    for table in tables:
        inner = exp.select("*", exp.alias_(_window(table, times), "window")).from_(_quoted(table))
        table.replace(
            exp.Subquery(
                this=inner, alias=exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
            )
        )
    first = exp.column("window", table=names[0])
    for name in names[1:]:
        select.where(
            exp.EQ(this=first.copy(), expression=exp.column("window", table=name)), copy=False
        )
    for column in list(select.find_all(exp.Column)):
        if column.parent_select is select and column.table == "window":
            column.replace(exp.Dot(this=first.copy(), expression=column.this.copy()))
    group = select.args.get("group") or exp.Group()
    group.set("expressions", [first.copy(), *group.expressions])
    select.set("group", group)


def _quoted(table: exp.Table) -> exp.Table:
    """Returns the table by its name alone, in which there may be a dot."""
    return exp.Table(this=exp.to_identifier(table.name, quoted=True))


def _window(
    table: exp.Table, times: Mapping[str, str | None], *, qualified: bool = False
) -> exp.Expr:
    time = times.get(table.name)
    if time is None:
        raise SqlError(
            f"{table.name}[Range ...]: the source has no event time; give it 'time', the column"
        )
    span: Range = table.meta[RANGE]
    column = exp.column(time, table=table.alias_or_name if qualified else None)
    lengths = [exp.Literal.string(text) for text in (span.length, span.slide) if text]
    return exp.Anonymous(this="window", expressions=[column, *lengths])


def _move_having(select: exp.Select) -> None:
    having = select.args.get("having")
    if having is None or any(name_of(node) for node in having.find_all(exp.Anonymous)):
        return
    select.set("having", None)
    select.where(having.this.copy(), copy=False)
