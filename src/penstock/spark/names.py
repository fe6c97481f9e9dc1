"""The name that Spark gives to the column of an aggregate.

Spark names a column when it analyses it: ``avg(fare + 1)`` becomes "avg((fare + 1))". A weighted
aggregate is another expression, so it gets that name as an alias, and the alias is needed before
Spark has analysed anything. What a column prints is close to its name, but writes operators as
functions and texts with quotes; this module translates.

Some names are beyond it: that of a field of a map (read as that of a struct, which prints alike),
of a text for ``expr`` that is not written as Spark would write it, of a lambda, and of a function
whose name shows arguments that were left out.

>>> translate("count_if(and(>(speed, 3), =(kind, 'bus')))")
'count_if(((speed > 3) AND (kind = bus)))'
>>> translate("avg(CASE WHEN isNull(fare) THEN 0L ELSE *(fare, 2) END)")
'avg(CASE WHEN (fare IS NULL) THEN 0 ELSE (fare * 2) END)'
"""

import re
from collections.abc import Iterator

from pyspark.sql import Column

_INFIX = {
    **{sign: sign for sign in ("=", "<", "<=", ">", ">=", "<=>", *"+-*/%&|^")},
    "==": "=",  # as a client of Spark Connect prints it
    "and": "AND",
    "or": "OR",
}
_TEMPLATES = {
    "!": "(NOT {})",
    "not": "(NOT {})",
    "~": "~{}",
    "isNull": "({} IS NULL)",
    "isNotNull": "({} IS NOT NULL)",
    "isnotnull": "({} IS NOT NULL)",
    "positive": "(+ {})",
    "like": "{} LIKE {}",
}
_RENAMED = {
    "isNaN": "isnan",
    **{
        name: name.upper()
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos"),
            *("cosh", "cot", "csc", "degrees", "exp", "expm1", "floor", "hypot", "log10", "log1p"),
            *("log2", "power", "radians", "regexp", "regexp_like", "rlike", "sec", "signum", "sin"),
            *("sinh", "sqrt", "tan", "tanh"),
        )
    },
}
_TOKEN = re.compile(
    r"""
    (?P<text>'(?:[^'\\]|\\.)*')
    | (?P<call>(?:[A-Za-z_]\w*|[-+*/%=<>!&|^~]+)\()
    | (?P<close>\))
    | (?P<comma>,[ ])
    | (?P<field>\['(?:[^'\\]|\\.)*'\])
    | (?P<long>\b\d+L\b)
    | (?P<other>[A-Za-z_]\w*|.)
    """,
    re.VERBOSE | re.DOTALL,
)


COUNTS_OF_ALL = ("count(*)", "count(unresolvedstar())")
"""How a count of all tuples is printed in a classic session, and by a client of Spark Connect."""


def name_of(column: Column) -> str:
    """The name of Spark's aggregate, from what it prints: ``Column<'avg(fare)'>``."""
    printed = str(column).removeprefix("Column<'").removesuffix("'>")
    return "count(1)" if printed in COUNTS_OF_ALL else translate(printed)


def counts_all(native: Column) -> bool:
    """Whether a count is one of all tuples."""
    return any(printed in str(native) for printed in COUNTS_OF_ALL)


def translate(printed: str) -> str:
    """What Spark prints for an expression, as it would name it."""
    return _sequence(_TOKEN.finditer(printed))[0]


def _sequence(tokens: Iterator[re.Match[str]]) -> list[str]:
    """The arguments up to the bracket that closes them; one, where no call is open."""
    arguments = [""]
    for token in tokens:
        kind, text = token.lastgroup, token.group()
        if kind == "close":
            return arguments
        if kind == "comma":
            arguments.append("")
        elif kind == "call":
            arguments[-1] += _call(text[:-1], _sequence(tokens))
        else:
            arguments[-1] += _plain(kind, text, arguments[-1])
    return arguments


def _plain(kind: str | None, text: str, before: str) -> str:
    if kind == "text":
        return _unquoted(text)
    if kind == "field":
        name = _unquoted(text[1:-1])
        return f"[{name}]" if before.startswith("map(") else f".{name}"
    if kind == "long":
        return text[:-1]
    return "" if text == "`" else text


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _call(name: str, arguments: list[str]) -> str:
    if name in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name in _TEMPLATES and _TEMPLATES[name].count("{}") == len(arguments):
        return _TEMPLATES[name].format(*arguments)
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if name == "from_json":
        arguments = arguments[:1]
    return f"{_RENAMED.get(name, name)}({', '.join(arguments)})"
