"""Confines SQL from outside to SELECT over named relations, with functions of a list.

The check is of the parse tree, and what runs is written out from the tree again: Spark never sees
the text that came. What the tree could hide is refused in the text: ``${...}``, which Spark
replaces by settings before it reads a query, backslashes, and signs that nobody sees.
"""

from collections.abc import Collection
from itertools import chain

from sqlglot import exp

from penstock.federation.allowed_functions import ALLOWED, GROWING
from penstock.federation.allowed_syntax import SYNTAX
from penstock.federation.federated_sql import BETWEEN_NAMES, written_out
from penstock.hints import hint
from penstock.sql import SqlError
from penstock.sql.grammar import RANGE, Range, Rows, parse, text
from penstock.sql.sliding import span_of
from penstock.units import seconds

MOST_LETTERS_OF_SQL = 20_000
DEEPEST_NESTING = 60
"""Of brackets."""
DEEPEST_TREE = 200
"""Of nodes within nodes."""
MOST_JOINS = 6
MOST_GROWTH = 1_000
"""A value may be so many times as large as what it was made of."""
MOST_WINDOWS_PER_TUPLE = 1_000
LARGEST_LITERAL = 100_000
"""Where a function takes a whole number for how many or how exactly."""
COUNTED = {"max_by": 2, "min_by": 2, "percentile_approx": 2, "approx_percentile": 2, "slice": 2}
"""Functions, and from which argument on numbers say how many."""
HIDDEN_COLUMNS = ("_metadata",)
"""Columns that Spark adds to files: they tell paths."""


class RefusedSqlError(SqlError):
    """Says why SQL from outside is refused; ``reason`` is one word to count by."""

    def __init__(self, reason: str, message: str, line: int | None = None) -> None:
        super().__init__(message, line)
        self.reason = reason


def confine(sql: str, allowed: Collection[str]) -> None:
    """Raises a ``RefusedSqlError`` unless the SQL only reads ``allowed``, and harmlessly.

    Relations are called as in the query, such as ``rome.machines`` or ``rome``, in any case.
    """
    _check_text(sql)
    try:
        tree = parse(written_out(sql))
    except SqlError as error:
        raise RefusedSqlError("unreadable", str(error), error.line) from None
    nodes = list(_within_depth(tree))
    for node in nodes:
        _check_node(node)
    common = {cte.alias.lower() for cte in nodes if isinstance(cte, exp.CTE)}
    relations = {name.lower() for name in allowed}
    if common & relations:
        raise RefusedSqlError("relation", "a common table must not be called as what is lent")
    tables = [node for node in nodes if isinstance(node, exp.Table)]
    if not tables:
        raise RefusedSqlError("relation", "SQL from outside must read a relation that is lent")
    for table in tables:
        _check_table(table, common, relations)
    _check_amounts(nodes)


def _check_text(sql: str) -> None:
    if len(sql) > MOST_LETTERS_OF_SQL:
        raise RefusedSqlError("size", f"SQL must have at most {MOST_LETTERS_OF_SQL:,} letters")
    if any(not (sign.isprintable() or sign in "\n\r\t") for sign in sql):
        raise RefusedSqlError("text", "SQL must be of signs that can be seen")
    for hidden in ("${", "\\"):
        if hidden in sql:
            raise RefusedSqlError("text", f"SQL from outside must not have {hidden!r}")
    depth = deepest = 0
    for sign in sql:
        depth += (sign in "([") - (sign in ")]")
        deepest = max(deepest, depth)
    if deepest > DEEPEST_NESTING:
        raise RefusedSqlError("size", f"brackets must be at most {DEEPEST_NESTING} deep")


def _within_depth(tree: exp.Query) -> list[exp.Expr]:
    """Returns all nodes, without recursion, or refuses a tree that is too deep."""
    found: list[exp.Expr] = []
    level: list[exp.Expr] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > DEEPEST_TREE:
            raise RefusedSqlError("size", "SQL is nested too deeply")
        found += level
        level = list(chain.from_iterable(node.iter_expressions() for node in level))
    return found


def _check_node(node: exp.Expr) -> None:
    known = SYNTAX.get(type(node))
    if known is None:
        raise RefusedSqlError("syntax", f"{node.key.upper()} is not allowed in SQL from outside")
    for name, value in node.args.items():
        if value not in (None, False, [], "") and name not in known:
            raise RefusedSqlError("syntax", f"{node.key.upper()} with {name} is not allowed")
    if isinstance(node, exp.Anonymous):
        _check_function(node)
    elif isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
        raise RefusedSqlError("function", "functions of a catalog are not allowed")
    elif isinstance(node, exp.Identifier):
        _check_name(node)
    elif isinstance(node, exp.DataType) and not _is_plain_type(node):
        raise RefusedSqlError("syntax", "only types of SQL are allowed")


def _is_plain_type(node: exp.DataType) -> bool:
    kind = node.this
    return isinstance(kind, exp.DataType.Type) and kind is not exp.DataType.Type.USERDEFINED


def _check_function(node: exp.Anonymous) -> None:
    if not isinstance(node.this, str) or node.this.lower() not in ALLOWED:
        name = node.this if isinstance(node.this, str) else text(node.this)
        raise RefusedSqlError("function", f"the function {name} is not on the list; {_like(name)}")


def _like(name: str) -> str:
    told = hint(name.lower(), ALLOWED)
    return told if told.startswith("did") else "see the guide of federations for what is"


def _check_name(node: exp.Identifier) -> None:
    name = str(node.this)
    if "`" in name:
        raise RefusedSqlError("text", "a name must not have a backquote in it")
    if name.lower() in HIDDEN_COLUMNS:
        raise RefusedSqlError("relation", f"the column {name} is not lent")


def _check_table(table: exp.Table, common: Collection[str], relations: Collection[str]) -> None:
    if not all(isinstance(part, exp.Identifier) for part in table.parts):
        raise RefusedSqlError("relation", f"FROM {text(table)}: only names are allowed here")
    if RANGE in table.meta:
        span: Range | Rows = table.meta[RANGE]
        if isinstance(span, Rows):
            raise RefusedSqlError("syntax", "windows of rows are not for several sites")
        _check_ratio(table.name, seconds(span.length), seconds(span.slide or span.length))
    names = [part.name for part in table.parts]
    if len(names) == 1 and names[0].lower() in common:
        return
    for name in ".".join(names).split(BETWEEN_NAMES):
        if name.lower() not in relations:
            known = hint(name, relations) if relations else "none is lent"
            raise RefusedSqlError("relation", f"FROM {name}: this is not lent; {known}")


def _check_amounts(nodes: list[exp.Expr]) -> None:
    """Refuses what makes much of little: products, copies of tuples, and large values."""
    if sum(isinstance(node, exp.Join) for node in nodes) > MOST_JOINS:
        raise RefusedSqlError("size", f"a query must have at most {MOST_JOINS} joins")
    growth = 1.0
    for node in nodes:
        growth *= _growth_of(node)
        if isinstance(node, exp.Anonymous):
            _check_counts(node)
            if node.this.lower() == "window" and len(node.expressions) > 2:
                _check_window(node)
    if growth > MOST_GROWTH:
        raise RefusedSqlError("size", f"values would grow more than {MOST_GROWTH:,}-fold")


def _growth_of(node: exp.Expr) -> float:
    """Returns how many times as large as its largest argument a value can be."""
    if isinstance(node, exp.DPipe):
        return 2.0
    if not isinstance(node, exp.Anonymous) or node.this.lower() not in GROWING:
        return 1.0
    if node.this.lower() == "repeat":
        return _whole(node.expressions[-1]) if len(node.expressions) == 2 else 1.0
    return max(1.0, float(len(node.expressions)))


def _check_counts(node: exp.Anonymous) -> None:
    for argument in node.expressions[COUNTED.get(node.this.lower(), len(node.expressions)) :]:
        _whole(argument)


def _whole(node: exp.Expr) -> float:
    if not (isinstance(node, exp.Literal) and node.is_int and int(node.name) <= LARGEST_LITERAL):
        raise RefusedSqlError(
            "size", f"{text(node)}: this must be a whole number up to {LARGEST_LITERAL:,}"
        )
    return float(node.name)


def _check_window(node: exp.Anonymous) -> None:
    try:
        length, slide, _ = span_of(node)
    except SqlError as error:
        raise RefusedSqlError("syntax", str(error)) from None
    _check_ratio(text(node), length, slide)


def _check_ratio(told: str, length: float, slide: float) -> None:
    if slide <= 0 or length / slide > MOST_WINDOWS_PER_TUPLE:
        raise RefusedSqlError(
            "size", f"{told}: a tuple may be in {MOST_WINDOWS_PER_TUPLE:,} windows at most"
        )
