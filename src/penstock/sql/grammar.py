"""Reads Spark SQL, with CQL's windows, into a tree.

Functions are left as they are written: this grammar knows their names and no more, so that what
it does not touch comes out as it went in, whatever Spark's version.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from penstock.errors import PenstockError


class SqlError(PenstockError):
    """Says what is wrong with a query; ``line`` counts from 1, within the text."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Range:
    """Is a window as CQL writes it, ``[Range 15 min Slide 5 min]``, in Spark's intervals."""

    length: str
    slide: str | None = None


@dataclass(frozen=True)
class Rows:
    """Is a window of rows as CQL writes it, ``[Partition By k Rows 100 Slide 20]``."""

    rows: int
    slide: int
    partition: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The window as it is written."""
        by = f"Partition By {', '.join(self.partition)} " if self.partition else ""
        slide = f" Slide {self.slide}" if self.slide != self.rows else ""
        return f"[{by}Rows {self.rows}{slide}]"


_UNITS = {
    "millisecond": ("ms", "msec", "millisecond", "milliseconds"),
    "second": ("s", "sec", "secs", "second", "seconds"),
    "minute": ("m", "min", "mins", "minute", "minutes"),
    "hour": ("h", "hour", "hours"),
    "day": ("d", "day", "days"),
}
UNITS = {spelt: unit for unit, spellings in _UNITS.items() for spelt in spellings}
RANGE = "range"
"""Where the window of a table is kept in its node's ``meta``."""
_SPECIAL = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "OVERLAY", "SUBSTRING", "SUBSTR")
"""Functions with a syntax of their own."""


class Grammar(Spark):
    """Is Spark's dialect in which ``window`` is a function, and functions are only names."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL
        }

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            if isinstance(this, exp.Table) and self._match(TokenType.L_BRACKET):
                this.meta[RANGE] = self._parse_cql_window()
                return this
            found: exp.Expr | None = super()._parse_bracket(this)
            return found

        def _parse_cql_window(self) -> Range | Rows:
            found: Range | Rows
            if self._match_text_seq("RANGE"):
                length = self._parse_cql_span()
                slide = self._parse_cql_span() if self._match_text_seq("SLIDE") else None
                found = Range(length, slide)
            else:
                found = self._parse_cql_rows()
            if not self._match(TokenType.R_BRACKET):
                self.raise_error("expected ]")
            return found

        def _parse_cql_rows(self) -> Rows:
            columns: list[str] = []
            if self._match(TokenType.PARTITION_BY) or self._match_text_seq("PARTITION", "BY"):
                while not columns or self._match(TokenType.COMMA):
                    name = self._parse_id_var()
                    if name is None:
                        self.raise_error("expected a column such as [Partition By k Rows 100]")
                        break
                    columns.append(name.name)
            if not self._match_text_seq("ROWS"):
                self.raise_error("expected a window such as [Range 1 sec] or [Rows 100]")
            rows = self._parse_cql_number()
            slide = self._parse_cql_number() if self._match_text_seq("SLIDE") else rows
            if slide > rows:
                self.raise_error(f"expected a slide of at most {rows} rows")
            return Rows(rows, slide, tuple(columns))

        def _parse_cql_number(self) -> int:
            number = self._parse_number()
            if number is None or not str(number.this).isdigit() or int(number.this) < 1:
                self.raise_error("expected a number of rows such as 100")
                return 1
            return int(number.this)

        def _parse_cql_span(self) -> str:
            number = self._parse_number()
            unit = self._advance_any()
            if number is None or unit is None or unit.text.lower() not in UNITS:
                self.raise_error("expected a duration such as 1 sec")
                return ""
            return f"{number.name} {UNITS[unit.text.lower()]}"


MOST_LETTERS = 20_000
"""Of one query; also a message of a federation has no more."""
DEEPEST = 400
"""How deep expressions may be nested, and ``1 + 1 + 1`` is nested, too. Rewriting takes seconds
there, and four times as long at twice the depth."""


def parse(text: str) -> exp.Query:
    """Reads one query that somebody wrote."""
    if len(text) > MOST_LETTERS:
        raise SqlError(f"the query must have at most {MOST_LETTERS:,} letters; got {len(text):,}")
    tree = parse_rewritten(text)
    if _depth(tree) > DEEPEST:
        raise SqlError(f"this SQL is nested more than {DEEPEST} levels deep: write it in parts")
    return tree


def parse_rewritten(text: str) -> exp.Query:
    """Reads one query that was made of another: with intervals it is many times as long."""
    try:
        trees = sqlglot.parse(text, dialect=Grammar)
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        raise SqlError(f"this is not SQL: {_said(first)}{near}", first.get("line")) from None
    except sqlglot.errors.TokenError as error:
        raise SqlError("this is not SQL: a quote or a comment is not closed") from error
    except Exception as error:  # the parser's own mistakes must not look like the user's crash
        raise SqlError("this SQL is beyond the parser: write it as a plain SELECT") from error
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise SqlError("expected one query" if found else "the query is empty")
    if not isinstance(found[0], exp.Query):
        raise SqlError(f"expected a SELECT, found {found[0].key.upper()}")
    for join in found[0].find_all(exp.Join):
        if join.kind == "CROSS":  # also a comma; Spark streams know inner joins only
            join.set("kind", None)
            join.set("on", exp.true())
    return found[0]


def _depth(tree: exp.Expr) -> int:
    """Answers how deep a tree is, without a call a level."""
    deepest, waiting = 0, [(tree, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        waiting += [(child, level + 1) for child in node.iter_expressions()]
    return deepest


def _said(error: dict[str, Any]) -> str:
    text = str(error.get("description") or "cannot be read").partition(" but got")[0].rstrip(".")
    return text[0].lower() + text[1:]


def text(tree: exp.Expr, *, pretty: bool = False) -> str:
    """Writes a query as Spark reads it."""
    return tree.sql(Grammar, normalize_functions=False, pretty=pretty, comments=False)
