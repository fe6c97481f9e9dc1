"""Reads SQL over sources of several sites into a tree in which each union of sources is one table.

Three forms mean the same: the short ``FROM rome.machines UNION ALL oslo.machines``, a sub-query
``(SELECT * FROM rome.machines UNION ALL SELECT * FROM oslo.machines)``, and a common table of it.
A table of the tree is called after all it reads, as ``rome.machines UNION ALL oslo.machines``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import Token, TokenType, exp

from penstock.sql.grammar import RANGE, Grammar, Rows, SqlError, parse, parse_rewritten, text
from penstock.sql.pieces import has_aggregates
from penstock.sql.relations import inputs
from penstock.sql.selects import signature

Resolve = Callable[[Sequence[str]], str]
"""Returns the full name of what a table's parts, such as ``("rome", "machines")``, stand for."""
BETWEEN_NAMES = " UNION ALL "
USUAL_ALIAS = "sources"
"""What a union is called that has no name of its own."""
_PLACEHOLDER = "placeholder"
_NO_NAMES = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.TABLE, TokenType.FROM)


@dataclass(frozen=True)
class FederatedSql:
    """Holds a query, and for each table of its tree the full names of what is read."""

    tree: exp.Query
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    """The full names in order, as often as they are read."""

    @property
    def repeats(self) -> bool:
        """Whether something is read more than once."""
        return len(set(self.reads)) < len(self.reads)


def read_sql(sql: str, resolve: Resolve) -> FederatedSql:
    """Reads a query; ``resolve`` knows the names, and refuses unknown ones."""
    tree = parse(written_out(sql))
    for table in tree.find_all(exp.Table):
        if isinstance(window := table.meta.get(RANGE), Rows):
            raise SqlError(
                f"{table.name}{window.text}: rows are counted in one order, and several sites have "
                "none; use a window of time, or a job of one site"
            )
    _inline_common_tables(tree)
    found = FederatedSql(tree)
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    reads: list[str] = []
    _collapse_unions(tree, common)
    for table in [*tree.find_all(exp.Table)]:
        if len(table.parts) == 1 and table.name.lower() in common:
            continue
        names = tuple(resolve(parts) for parts in _parts_of(table))
        reads += names
        _rename(table, names)
        found.tables[table.name] = names
    return FederatedSql(tree, found.tables, tuple(reads))


def plain_text(sql: str, tables: Mapping[str, tuple[str, ...]]) -> str:
    """Returns a query over views of the full names, with unions written out."""
    tree = parse_rewritten(sql)
    _write_unions(tree, tables)
    return text(tree)


def with_unions_written(found: FederatedSql, unions: Mapping[str, tuple[str, ...]]) -> FederatedSql:
    """Returns the query with these unions written out, so that each name in them is a table."""
    tree = found.tree.copy()
    _write_unions(tree, unions)
    tables = {table: names for table, names in found.tables.items() if table not in unions}
    tables |= {name: (name,) for names in unions.values() for name in names}
    return FederatedSql(tree, tables, found.reads)


def _write_unions(tree: exp.Query, unions: Mapping[str, tuple[str, ...]]) -> None:
    for table in [*tree.find_all(exp.Table)]:
        names = unions.get(table.name, ())
        if len(names) > 1:
            if RANGE in table.meta:
                raise SqlError(f"{table.alias}[Range ...]: write GROUP BY window(...) here")
            table.replace(exp.Subquery(this=_union(names), alias=table.args.get("alias")))


def _union(names: Sequence[str]) -> exp.Query:
    selects = [exp.select("*").from_(exp.Table(this=_quoted(name))) for name in names]
    union: exp.Query = selects[0]
    for select in selects[1:]:
        union = exp.Union(this=union, expression=select, distinct=False)
    return union


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


# --- the short form ----------------------------------------------------------------------------


def written_out(sql: str) -> str:
    """Returns the text with each union in the short form as one quoted name."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=Grammar)
    except sqlglot.errors.TokenError:
        raise SqlError("this is not SQL: a quote or a comment is not closed") from None
    ends, pieces = 0, []
    for first, last, names in _short_unions(tokens):
        pieces += [sql[ends : first.start], "`", BETWEEN_NAMES.join(names), "`"]
        ends = last.end + 1
    return "".join([*pieces, sql[ends:]])


def _short_unions(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token, list[str]]]:
    for at, token in enumerate(tokens):
        if token.token_type is not TokenType.FROM:
            continue
        names, end = [], at + 1
        while (found := _name_at(tokens, end)) is not None:
            name, last = found
            names.append(name)
            if not _is_union_all(tokens, last + 1):
                break
            end = last + 3
        if len(names) > 1:
            yield tokens[at + 1], tokens[last], names


def _name_at(tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
    """Returns the name that begins at a token, with the number of its last token."""
    if not _is_word(tokens, at) or tokens[at].token_type in _NO_NAMES:
        return None
    parts = [tokens[at].text]
    while _type(tokens, at + 1) is TokenType.DOT and _is_word(tokens, at + 2):
        parts.append(tokens[at + 2].text)
        at += 2
    if any(set(part) & {".", "`"} for part in parts[:-1]) or "`" in parts[-1]:
        raise SqlError(f"{'.'.join(parts)}: a site in a short UNION ALL has a name without a dot")
    return ".".join(parts), at


def _is_word(tokens: Sequence[Token], at: int) -> bool:
    kind = _type(tokens, at)
    return kind is TokenType.IDENTIFIER or (
        kind not in (None, TokenType.STRING) and tokens[at].text.isidentifier()
    )


def _type(tokens: Sequence[Token], at: int) -> TokenType | None:
    return tokens[at].token_type if at < len(tokens) else None


def _is_union_all(tokens: Sequence[Token], at: int) -> bool:
    return (_type(tokens, at), _type(tokens, at + 1)) == (TokenType.UNION, TokenType.ALL)


# --- the other forms ---------------------------------------------------------------------------


def _inline_common_tables(tree: exp.Query) -> None:
    """Puts each common table that is read once where it is read."""
    common = tree.args.get("with_")
    for cte in list(tree.ctes):
        name = cte.alias.lower()
        tables = [table for table in tree.find_all(exp.Table) if table.name.lower() == name]
        if len(tables) != 1 or cte.args["alias"].columns or len(tables[0].parts) != 1:
            continue
        alias = exp.TableAlias(this=exp.to_identifier(tables[0].alias_or_name))
        tables[0].replace(exp.Subquery(this=cte.this, alias=alias))
        cte.pop()
    if common is not None and not tree.ctes:
        tree.set("with_", None)


def _collapse_unions(tree: exp.Query, common: set[str]) -> None:
    """Replaces a union of queries that differ in their table only by one over all the tables."""
    for union in [*tree.find_all(exp.Union)]:
        if isinstance(union.parent, exp.Union) or union is tree:
            continue
        branches = list(_branches(union))
        tables = [_only_table(branch, common) for branch in branches]
        if None in tables or len({_shape(branch) for branch in branches}) > 1:
            continue
        joined = BETWEEN_NAMES.join(".".join(_names(table)) for table in tables if table)
        first = tables[0]
        assert first is not None
        first.set("alias", first.args.get("alias") or exp.TableAlias(this=_quoted(first.name)))
        first.set("db", None)
        first.set("this", _quoted(joined))
        union.replace(branches[0])


def _branches(union: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(union, exp.Union) and not union.args.get("distinct"):
        yield from _branches(union.left)
        yield from _branches(union.right)
    else:
        yield union


def _only_table(branch: exp.Expr, common: set[str]) -> exp.Table | None:
    """Returns the table that a branch reads, where it only passes its tuples on."""
    if not isinstance(branch, exp.Select) or has_aggregates(branch):
        return None
    if len(inputs(branch)) != 1 or any(branch.args.get(key) for key in ("with_", "limit", "order")):
        return None
    tables = list(branch.find_all(exp.Table))
    if len(tables) != 1 or tables[0].name.lower() in common or tables[0].meta:
        return None
    return tables[0]


def _shape(branch: exp.Expr) -> str:
    shape = branch.copy()
    (table,) = shape.find_all(exp.Table)
    table.set("db", None)
    table.set("this", exp.to_identifier(_PLACEHOLDER))
    return signature(shape)


def _names(table: exp.Table) -> list[str]:
    return [part.name for part in table.parts]


def _parts_of(table: exp.Table) -> list[list[str]]:
    """Returns the parts of each name that a table stands for."""
    if BETWEEN_NAMES in table.name:
        return [name.split(".", 1) for name in table.name.split(BETWEEN_NAMES)]
    return [_names(table)]


def _rename(table: exp.Table, names: Sequence[str]) -> None:
    """Calls a table after all that it reads; it keeps the name that the query has for it."""
    last = {name.rpartition(".")[2] for name in names}
    alias = table.alias or (last.pop() if len(last) == 1 else USUAL_ALIAS)
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    table.set("db", None)
    table.set("catalog", None)
    table.set("this", _quoted(BETWEEN_NAMES.join(names)))
