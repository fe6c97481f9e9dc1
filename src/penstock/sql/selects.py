"""Finds the SELECT that aggregates a table, and compares parts of queries."""

from sqlglot import exp

from penstock.sql.grammar import text
from penstock.sql.mergeable import UnmergeableError
from penstock.sql.pieces import has_aggregates
from penstock.sql.relations import inputs


def aggregate_over(tree: exp.Query, view: str) -> exp.Select:
    """Returns the innermost SELECT that aggregates the tuples of a table."""
    tables = [table for table in tree.find_all(exp.Table) if table.name == view]
    if len(tables) != 1:
        raise UnmergeableError("a source is read more than once")
    select = tables[0].parent_select
    while isinstance(select, exp.Select):
        if len(inputs(select)) > 1:
            raise UnmergeableError("tuples are joined before they are aggregated")
        if has_aggregates(select):
            return select
        parent = select.parent
        if isinstance(parent, exp.Union):
            raise UnmergeableError("the parts of a UNION ALL differ")
        select = parent.parent_select if isinstance(parent, exp.Subquery) else None
    raise UnmergeableError("it has no aggregate, so that there is nothing to merge")


def local(select: exp.Select) -> exp.Select:
    """Returns a SELECT over one relation without that one's name in front of columns."""
    alias = inputs(select)[0].alias_or_name.lower()

    def bare(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and alias and node.table.lower() == alias:
            return exp.Column(this=node.this.copy())
        return node

    found = select.copy()
    found.set("expressions", [item.transform(bare) for item in found.expressions])
    for name in ("group", "having"):
        if found.args.get(name):
            found.set(name, found.args[name].transform(bare))
    return found


def signature(node: exp.Expr) -> str:
    """Returns the same text for expressions that differ in case of names and in quotes only."""

    def plain(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Identifier):
            return exp.Identifier(this=str(part.this).lower(), quoted=False)
        if isinstance(part, exp.Anonymous):
            part.set("this", str(part.this).lower())
        return part

    return text(node.transform(plain))
