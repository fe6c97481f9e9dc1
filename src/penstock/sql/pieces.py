"""Small questions about the parts of a query, and small changes to them."""

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.aggregates import call, estimate, filtered, is_aggregate, is_distinct, name_of
from penstock.sql.grammar import SqlError, text
from penstock.sql.relations import Relation

ATOM = "_part_"


def has_aggregates(select: exp.Select) -> bool:
    if select.args.get("group"):
        return True
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    return any(name_of(node) for part in parts for node in part.walk())


def has_windows(tree: exp.Query) -> bool:
    calls = tree.find_all(exp.Anonymous)
    return any(str(call.this).lower() in ("window", "session_window") for call in calls)


def multiplies(select: exp.Select) -> bool:
    """Whether it makes several rows of one."""
    return bool(select.args.get("laterals")) or any(
        str(node.this).lower() in ("explode", "posexplode", "inline", "stack")
        for node in select.find_all(exp.Anonymous)
    )


def tables_of(tree: exp.Expr) -> set[str]:
    return {table.name.lower() for table in tree.find_all(exp.Table)}


def has_some(select: exp.Select, condition: exp.Expr | None) -> exp.Expr | None:
    """Whether a group has a tuple that meets the condition; None where it must have."""
    if condition is None or not select.args.get("group"):
        return None
    count = exp.Anonymous(this="count", expressions=[exp.Star()])
    return exp.GT(this=filtered(count, condition), expression=exp.convert(0))


def unfiltered(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """A call and the condition of its FILTER, if any."""
    if isinstance(node, exp.Filter):
        return node.this, node.expression.this
    return node, None


def streamable(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate of estimates: as it is, but Spark has no DISTINCT on streams."""
    if is_distinct(aggregate):
        return estimate(aggregate, exp.convert(1))[0].value.node
    return aggregate.copy()


def atoms_of(items: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Each aggregate once, under a name, and what is made of them.

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
            names[key] = f"{ATOM}{len(names)}"
            atoms.append(exp.alias_(node.copy(), names[key]))
        return exp.column(names[key])

    return atoms, [item.transform(named) for item in items]


def all_of(*conditions: exp.Expr | None) -> exp.Expr | None:
    """All of them, as one condition."""
    there = [condition.copy() for condition in conditions if condition is not None]
    return exp.and_(*there) if there else None


def where_of(select: exp.Select) -> exp.Expr | None:
    where = select.args.get("where")
    return where.this if where else None


def set_where(select: exp.Select, condition: exp.Expr | None) -> None:
    select.set("where", exp.Where(this=condition) if condition is not None else None)


def inlined(having: exp.Expr, select: exp.Select) -> exp.Expr:
    """HAVING with names of the result replaced by what they stand for."""
    named = {item.alias.lower(): item.this for item in select.expressions if item.alias}

    def inline(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in named:
            return exp.paren(named[node.name.lower()].copy())
        return node

    return having.copy().transform(inline)


def output_name(item: exp.Expr) -> str:
    """What Spark would call it, or nearly; answers get Spark's own names in the end."""
    named = isinstance(item, exp.Alias | exp.Column | exp.Dot)
    return item.alias_or_name if named else text(item)


def is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def starred(item: exp.Expr, relations: Sequence[Relation], select: exp.Select) -> list[exp.Expr]:
    """``*`` without marks."""
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
    """Not computed for a row that is not shown: it may be what the condition protects from."""
    if condition is None or isinstance(body, exp.Column | exp.Literal | exp.Dot):
        return body.copy()
    if isinstance(body, exp.Anonymous) and str(body.this).lower() in ("window", "explode"):
        return body.copy()
    return call("if", condition, body, exp.null())


def settle_groups(select: exp.Select, condition: exp.Expr | None) -> None:
    """GROUP BY without numbers, since columns will move.

    And what a group is made of is not computed for tuples that the condition keeps away.
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
    """GROUP BY may have the number or the name of a column of the result."""
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
    """Takes ORDER BY and LIMIT off: they come last, after rows that are not shown have gone."""
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
