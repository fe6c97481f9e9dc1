"""Writes CQL's windows as Spark does.

``FROM Src[Range 15 min Slide 5 min]`` means that the query is answered for each such window of the
source's event time. One windowed source: ``GROUP BY window(time, '15 minute', '5 minute')``.
Several: each tuple is put into its windows first, and tuples meet within one window.
THEMIS writes conditions on tuples behind HAVING (table 1); here as there they are conditions.
"""

from collections.abc import Mapping

from sqlglot import exp

from penstock.sql.aggregates import name_of
from penstock.sql.grammar import RANGE, Range, SqlError


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
    if not any(name_of(node) for node in select.find_all(exp.Anonymous)):
        raise SqlError(f"{table.name}[Range ...]: a window needs an aggregate, such as avg(x)")
    call = _window(table, times, qualified=True)
    group = select.args.get("group") or exp.Group()
    group.set("expressions", [call, *group.expressions])
    select.set("group", group)


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
