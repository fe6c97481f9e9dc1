"""Refuses what a part of the tuples cannot answer, or what Spark cannot run on a stream."""

from collections.abc import Mapping

from sqlglot import exp

from penstock.sql.aggregates import NO_FORM, WEIGHTED, is_distinct, name_of
from penstock.sql.grammar import SqlError, text
from penstock.sql.relations import MARKS, Source, by_name, inputs

PARTNER_SHED = "a tuple whose partner was shed would look as if it had none"
REFUSED_NODES: dict[type[exp.Expr], str] = {
    exp.Window: "OVER: Spark has no window functions on a stream; use GROUP BY window(...)",
    exp.Distinct: "SELECT DISTINCT: on a stream it never forgets a value; use GROUP BY window(...)",
    exp.Intersect: f"INTERSECT: {PARTNER_SHED}",
    exp.Except: f"EXCEPT: {PARTNER_SHED}",
    exp.Exists: f"EXISTS: {PARTNER_SHED}; use JOIN",
    exp.Pivot: "PIVOT: use aggregates with FILTER (WHERE ...)",
    exp.TableSample: "TABLESAMPLE: the gate samples already",
    exp.WithinGroup: "WITHIN GROUP: has no weighted form; use percentile_approx",
    exp.Qualify: "QUALIFY: Spark has no window functions on a stream",
    exp.Offset: "OFFSET: a stream has no end to count from",
}


def refuse(tree: exp.Query, sources: Mapping[str, Source]) -> list[str]:
    """Returns the sources that the query reads, or raises an error with the reason."""
    for node in tree.walk():
        _node(node)
    _endings(tree)
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    used = []
    for select in tree.find_all(exp.Select):
        for item in inputs(select):
            if isinstance(item, exp.Table) and item.name.lower() not in common:
                by_name(sources, item.name)
                used.append(item.name.lower())
            elif not isinstance(item, exp.Table | exp.Subquery):
                raise SqlError(f"FROM {text(item)}: expected a source or a sub-query")
        _joins(select, sources)
        _windows(select, sources)
    names = {name.lower(): name for name in sources}
    read = list(dict.fromkeys(names[name] for name in used))
    if not any(sources[name].sampled for name in read):
        raise SqlError("the query reads no stream, so there is nothing to gate")
    return read


def _node(node: exp.Expr) -> None:
    reason = REFUSED_NODES.get(type(node))
    if isinstance(node, exp.Distinct) and not isinstance(node.parent, exp.Select):
        reason = None
    if isinstance(node, exp.Union) and node.args.get("distinct"):
        reason = "UNION: on a stream it never forgets a row; use UNION ALL"
    if isinstance(node, exp.In) and node.args.get("query"):
        reason = f"IN (SELECT ...): {PARTNER_SHED}; use JOIN"
    if isinstance(node, exp.Subquery) and not isinstance(
        node.parent, exp.From | exp.Join | exp.Union | exp.CTE | exp.Subquery | None
    ):
        reason = "a sub-query as a value: Spark cannot run it on a stream"
    if isinstance(node, exp.Group) and _is_all(node):
        reason = "GROUP BY ALL: name the columns, since results carry more of them"
    name = name_of(node)
    if name in NO_FORM:
        reason = f"{name}: has no weighted form, so that shedding would bias it"
    if name in WEIGHTED and name != "count" and is_distinct(node):
        reason = f"{name}(DISTINCT ...): Spark has it on no stream; count(DISTINCT ...) works"
    if isinstance(node, exp.Alias | exp.TableAlias) and node.alias.lower() in MARKS:
        reason = f"the name {node.alias} is taken: results carry it"
    if reason is not None:
        raise SqlError(reason)


def _is_all(group: exp.Group) -> bool:
    names = [term.name.lower() for term in group.expressions if isinstance(term, exp.Column)]
    return bool(group.args.get("all")) or names == ["all"]


def _endings(tree: exp.Query) -> None:
    """Refuses ORDER BY and LIMIT in a part of the query."""
    for node in tree.find_all(exp.Order, exp.Limit):
        if node.parent is not tree:
            raise SqlError(
                f"{node.key.upper()} in a sub-query: the rows of a stream have no order; "
                "use max_by(x, y, k) for the top k"
            )


def _joins(select: exp.Select, sources: Mapping[str, Source]) -> None:
    for join in select.args.get("joins") or []:
        right = join.this
        static = isinstance(right, exp.Table) and any(
            name.lower() == right.name.lower() and not source.sampled
            for name, source in sources.items()
        )
        kind = f"{join.side} {join.kind}".strip().upper()
        if kind not in ("", "INNER", "CROSS") and not (static and kind in ("LEFT", "LEFT OUTER")):
            raise SqlError(f"{kind} JOIN: {PARTNER_SHED}")


def _windows(select: exp.Select, sources: Mapping[str, Source]) -> None:
    """Refuses a window over a column without a watermark, which would never close."""
    tables = [item for item in inputs(select) if isinstance(item, exp.Table)]
    times = {
        item.alias_or_name.lower(): source.time
        for item in tables
        for name, source in sources.items()
        if name.lower() == item.name.lower()
    }
    for call in select.find_all(exp.Anonymous):
        if call.parent_select is not select or not call.expressions:
            continue
        if str(call.this).lower() in ("window", "session_window"):
            _has_watermark(call, times)


def _has_watermark(call: exp.Expr, times: Mapping[str, str | None]) -> None:
    column = call.expressions[0]
    if not isinstance(column, exp.Column) or not times:
        return
    table = column.table.lower()
    known = {times[table]} if table in times else set(times.values())
    if column.name.lower() in {time.lower() for time in known if time is not None}:
        return
    there = sorted(time for time in known if time is not None)
    hint = f"the event time is {', '.join(there)}" if there else "the source has no 'time'"
    raise SqlError(f"{text(call)}: the column {column.name!r} has no watermark; {hint}")
