"""Asks small questions about the parts of a query, and makes small changes to them."""

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.aggregates import call, estimate, filtered, is_aggregate, is_distinct, name_of
from penstock.sql.grammar import SqlError, text
from penstock.sql.relations import Relation

ATOM_PREFIX = "_part_"
"""Begins the names of columns that hold one aggregate each."""
GROUPINGS = (exp.Rollup, exp.Cube, exp.GroupingSets)
"""Terms of GROUP BY that are no values."""


def has_aggregates(select: exp.Select) -> bool:
    """Says whether a SELECT groups or aggregates."""
    if select.args.get("group"):
        return True
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    return any(name_of(node) for part in parts for node in part.walk())


def has_windows(tree: exp.Query) -> bool:
    """Says whether a query has time windows."""
    calls = tree.find_all(exp.Anonymous)
    return any(str(call.this).lower() in ("window", "session_window") for call in calls)


def has_sessions(select: exp.Select) -> bool:
    """Says whether a SELECT groups by sessions, which it is for each tuple to go on or to end."""
    group = select.args.get("group")
    calls = group.find_all(exp.Anonymous) if group else ()
    return any(str(call.this).lower() == "session_window" for call in calls)


def multiplies(select: exp.Select) -> bool:
    """Says whether a SELECT makes several rows of one."""
    return bool(select.args.get("laterals")) or any(
        str(node.this).lower() in ("explode", "posexplode", "inline", "stack")
        for node in select.find_all(exp.Anonymous)
    )


def tables_of(tree: exp.Expr) -> set[str]:
    """Returns the names of the tables in a query, in lower case."""
    return {table.name.lower() for table in tree.find_all(exp.Table)}


def has_some(select: exp.Select, condition: exp.Expr | None) -> exp.Expr | None:
    """Returns whether a group has a tuple that meets the condition; None where it must have."""
    if condition is None or not select.args.get("group"):
        return None
    count = exp.Anonymous(this="count", expressions=[exp.Star()])
    return exp.GT(this=filtered(count, condition), expression=exp.convert(0))


def unfiltered(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Returns a call, and the condition of its FILTER, if any."""
    if isinstance(node, exp.Filter):
        return node.this, node.expression.this
    return node, None


def streamable(aggregate: exp.Expr) -> exp.Expr:
    """Returns an aggregate of estimates as it is, but for DISTINCT, which streams lack."""
    if is_distinct(aggregate):
        return estimate(aggregate, exp.convert(1))[0].value.node
    return aggregate.copy()


def atoms_of(items: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Returns each aggregate once, under a name, and what is made of them.

    Formulas repeat their sums; Spark optimizes the query again for every micro-batch.
    """
    names: dict[str, str] = {}
    atoms: list[exp.Expr] = []

    def named(node: exp.Expr) -> exp.Expr:
        aggregate = node.this if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) else node
        if not is_aggregate(unfiltered(aggregate)[0]):
            return node
        key = text(node)
        if key not in names:
            names[key] = f"{ATOM_PREFIX}{len(names)}"
            atoms.append(exp.alias_(node.copy(), names[key]))
        return exp.column(names[key])

    return atoms, [item.transform(named) for item in items]


def all_of(*conditions: exp.Expr | None) -> exp.Expr | None:
    """Joins conditions into one that asks for all of them."""
    there = [condition.copy() for condition in conditions if condition is not None]
    return exp.and_(*there) if there else None


def where_of(select: exp.Select) -> exp.Expr | None:
    """Returns the condition of WHERE."""
    where = select.args.get("where")
    return where.this if where else None


def set_where(select: exp.Select, condition: exp.Expr | None) -> None:
    """Replaces the condition of WHERE; None takes it off."""
    select.set("where", exp.Where(this=condition) if condition is not None else None)


def inlined(having: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns HAVING with names of the result replaced by what they stand for."""
    named = {item.alias.lower(): item.this for item in select.expressions if item.alias}

    def inline(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in named:
            return exp.paren(named[node.name.lower()].copy())
        return node

    return having.copy().transform(inline)


def output_name(item: exp.Expr) -> str:
    """Returns what Spark would call a column, or nearly; results get Spark's own names later."""
    named = isinstance(item, exp.Alias | exp.Column | exp.Dot)
    return item.alias_or_name if named else text(item)


def is_star(item: exp.Expr) -> bool:
    """Says whether an item is ``*`` or ``table.*``."""
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def starred(item: exp.Expr, relations: Sequence[Relation], select: exp.Select) -> list[exp.Expr]:
    """Returns what ``*`` stands for, without marks."""
    if isinstance(item, exp.Star) and (item.args.get("except_") or item.args.get("replace")):
        raise SqlError("* EXCEPT and * REPLACE: name the columns instead")
    table = item.args.get("table")
    if table is None and any(join.args.get("using") for join in select.args.get("joins") or []):
        raise SqlError("SELECT * over JOIN ... USING: name the columns instead")
    wanted = [r for r in relations if table is None or r.alias.lower() == table.name.lower()]
    return [_star_of(relation) for relation in wanted]


def _star_of(relation: Relation) -> exp.Expr:
    hidden = [exp.to_identifier(name) for name in relation.marks]
    star = exp.Star(except_=hidden) if hidden else exp.Star()
    if not relation.alias:
        return star
    return exp.Column(this=star, table=exp.to_identifier(relation.alias))


def guarded(body: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Computes a value only for rows that are shown, since the condition may protect it."""
    if condition is None or isinstance(body, (exp.Column, exp.Literal, exp.Dot, *GROUPINGS)):
        return body.copy()
    if isinstance(body, exp.Anonymous) and str(body.this).lower() in ("window", "explode"):
        return body.copy()
    return call("if", condition, body, exp.null())


def settle_groups(select: exp.Select, condition: exp.Expr | None) -> None:
    """Replaces numbers in GROUP BY, since columns will move.

    Values that tuples are grouped by are computed only for tuples that meet the condition.
    """
    group = select.args.get("group")
    if group is None:
        return
    bodies = [_meant(term, select) for term in group.expressions]
    swaps = {text(body): guarded(body, condition) for body in bodies}

    def swap(node: exp.Expr) -> exp.Expr:
        return swaps[text(node)].copy() if text(node) in swaps else node

    select.set("expressions", [item.transform(swap) for item in select.expressions])
    group.set("expressions", [body.copy().transform(swap) for body in bodies])
    if having := select.args.get("having"):
        having.set("this", having.this.transform(swap))


def _meant(term: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns what a term of GROUP BY stands for: the number or the name of a result's column."""
    items = select.expressions
    if isinstance(term, exp.Literal) and term.is_int and 0 < int(term.this) <= len(items):
        body: exp.Expr = items[int(term.this) - 1].unalias()
        return body
    if isinstance(term, exp.Column) and not term.table:
        named = {item.alias.lower(): item.this for item in items if item.alias}
        found: exp.Expr = named.get(term.name.lower(), term)
        return term if any(map(name_of, found.walk())) else found
    return term


def take_ending(tree: exp.Query) -> tuple[tuple[tuple[str, bool], ...], int | None]:
    """Takes ORDER BY and LIMIT off; they apply last, to rows that are shown."""
    order, limit = tree.args.get("order"), tree.args.get("limit")
    names = [output_name(item) for item in tree.selects]
    terms = []
    for term in order.expressions if order else []:
        body = term.this
        if isinstance(body, exp.Literal) and body.is_int and 0 < int(body.this) <= len(names):
            name = names[int(body.this) - 1]
        else:
            name = body.name if isinstance(body, exp.Column) else text(body)
        if name not in names:
            raise SqlError(f"ORDER BY {text(body)}: sort by a column of the result")
        terms.append((name, bool(term.args.get("desc"))))
    tree.set("order", None)
    tree.set("limit", None)
    if limit is None:
        return tuple(terms), None
    if not (isinstance(limit.expression, exp.Literal) and limit.expression.is_int):
        raise SqlError("LIMIT: expected a whole number")
    return tuple(terms), int(limit.expression.this)
