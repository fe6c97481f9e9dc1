"""Makes broken files out of good ones: damaged text, and values that nobody should write."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

STRANGE_TEXTS = (
    "",
    " ",
    "null",
    "~",
    "-1",
    "1e400",
    "nan",
    "9" * 400,
    "-0",
    "1s2",
    "0s",
    "1 parsec",
    "'; DROP TABLE rides; --",
    "../../../etc/passwd",
    "\u202eabc",
    "a\x00b",
    "\ud7ff😀",
    "${NO_SUCH_VARIABLE}",
    "${",
    "$${x}",
    "${A:-${B}}",
    "x" * 30_000,
    "a\nb\rc\td",
    "%s %d {0} {x!r}",
    "`",
    '"',
    "\\",
    "*",
    "&a",
    "!!python/object/apply:os.system ['true']",
)
STRANGE_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    0.0,
    1e308,
    -1e-320,
    float("inf"),
    float("-inf"),
    float("nan"),
    10**30,
    2**63,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": {"c": []}}},
    [1, "two", None, {}],
)
STRANGE_KEYS = ("", "sql ", "Sql", "sources", "-", "0", "null", "format", "a.b", "a[0]", "é", "*")
SQL_BITS = (
    "SELECT",
    "(",
    ")",
    ",",
    "'",
    '"',
    "`",
    "--",
    "/*",
    "FROM",
    "GROUP BY",
    "window",
    "CASE",
    "0",
    "NULL",
    ".",
    "*",
    "UNION ALL",
    "WITH RECURSIVE x AS",
    "OVER (",
    "[Range",
    "]",
    "JOIN",
    ";",
    "\x00",
    "LATERAL VIEW",
    "HAVING",
    "LIMIT -1",
    "'5 seconds'",
    "1e999",
    "{{ x }}",
    "@",
    "$$",
    ":a",
    "?",
)
BITS_OF_TEXT = (
    "\t",
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "#",
    "|",
    ">",
    "&x ",
    "*x",
    "!!binary ",
    "---\n",
    "...\n",
    "? ",
    "%YAML 9\n",
    "\x00",
    "\ufeff",
    "\x85",
    "'",
    '"',
    "<<: *x",
    "!x ",
    "\ud800",
)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefghij", "bcdefghijk", strict=True)
)
"""Nine to the tenth values, if somebody follows the aliases."""
Breaking = Callable[[str, random.Random], str]


def broken(good: str, seed: int) -> str:
    """One broken file; most seeds break what is said, some the text itself."""
    luck = random.Random(seed)
    text = luck.choice(BREAKINGS)(good, luck)
    return luck.choice(BREAKINGS)(text, luck) if luck.random() < 0.3 else text


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in items:
        yield from _places(value, (*path, key))


def _changed(good: str, luck: random.Random, change: Callable[[Any, Any], None]) -> str:
    """The file with a change at one place, which ``change`` makes in what stands around it."""
    try:
        data = copy.deepcopy(yaml.safe_load(good))
        path = luck.choice(list(_places(data)))
        around = data
        for key in path[:-1]:
            around = around[key]
        change(around, path[-1])
        return str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
    except (yaml.YAMLError, IndexError, RecursionError, TypeError, ValueError):
        return _text(good, luck)  # it was broken before


def _value(good: str, luck: random.Random) -> str:
    value = luck.choice(STRANGE_VALUES)
    return _changed(good, luck, lambda around, key: around.__setitem__(key, value))


def _text_value(good: str, luck: random.Random) -> str:
    value = luck.choice(STRANGE_TEXTS)
    return _changed(good, luck, lambda around, key: around.__setitem__(key, value))


def _gone(good: str, luck: random.Random) -> str:
    return _changed(good, luck, lambda around, key: around.__delitem__(key))


def _renamed(good: str, luck: random.Random) -> str:
    def rename(around: Any, key: Any) -> None:
        name = luck.choice((*STRANGE_KEYS, str(key)[:-1], str(key) + "s", str(key).upper()))
        around[name] = around.pop(key)

    return _changed(good, luck, rename)


def _added(good: str, luck: random.Random) -> str:
    key, value = luck.choice(STRANGE_KEYS), luck.choice(STRANGE_VALUES)
    return _changed(good, luck, lambda around, _: around.__setitem__(key, value))


def _sql(good: str, luck: random.Random) -> str:
    """Words of the SQL lost, doubled, in another order, or beside others."""

    def change(around: Any, key: Any) -> None:
        words = re.findall(r"\w+|\W", around[key])
        for _ in range(luck.randint(1, 4)):
            place = luck.randrange(len(words))
            how = luck.randrange(4)
            if how == 0:
                words[place : place + luck.randint(1, 3)] = []
            elif how == 1:
                words.insert(place, luck.choice(SQL_BITS))
            elif how == 2:
                words[place] = luck.choice(words)
            else:
                words[place] = words[place] * luck.choice((2, 500))
            words = words or [" "]
        around[key] = "".join(words)

    try:
        data = copy.deepcopy(yaml.safe_load(good))
        found = [path for path in _places(data) if path[-1] == "sql"]
        path = luck.choice(found)
        around = data
        for key in path[:-1]:
            around = around[key]
        change(around, "sql")
        return str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
    except (yaml.YAMLError, IndexError, KeyError, TypeError, ValueError):
        return _value(good, luck)


def _deep_sql(good: str, luck: random.Random) -> str:
    depth = luck.choice((50, 500, 5000))
    nested = luck.choice(
        (
            "(" * depth + "1" + ")" * depth,
            "-" * depth + "1",
            "NOT " * depth + "TRUE",
            "CASE WHEN " * depth,
            "1" + " + 1" * depth,
            "abs(" * depth + "1",
        )
    )
    return re.sub(r"SELECT\s", f"SELECT {nested} AS deep, ", good, count=1)


def _text(good: str, luck: random.Random) -> str:
    """Letters lost, added or changed anywhere."""
    letters = list(good)
    for _ in range(luck.randint(1, 6)):
        place = luck.randrange(max(len(letters), 1))
        how = luck.randrange(3)
        if how == 0:
            letters[place : place + luck.randint(1, 20)] = []
        elif how == 1:
            letters.insert(place, luck.choice(BITS_OF_TEXT))
        elif letters:
            letters[min(place, len(letters) - 1)] = chr(
                luck.choice((0, 9, 58, 123, 160, 0x2028, 0x1F600))
            )
    return "".join(letters)


def _cut(good: str, luck: random.Random) -> str:
    return good[: luck.randrange(max(len(good), 1))]


def _lines(good: str, luck: random.Random) -> str:
    """Lines in another order, doubled, or further in."""
    lines = good.splitlines(keepends=True) or [""]
    place = luck.randrange(len(lines))
    how = luck.randrange(4)
    if how == 0:
        lines.insert(place, luck.choice(lines))
    elif how == 1:
        lines[place] = " " * luck.randint(1, 5) + lines[place]
    elif how == 2:
        lines[place] = lines[place].lstrip()
    else:
        luck.shuffle(lines)
    return "".join(lines)


def _bomb(good: str, luck: random.Random) -> str:
    return luck.choice(
        (
            BOMB + good,
            good + "\nx: " + "[" * luck.choice((100, 5000, 50_000)),
            good + "\nx: &x\n  y: *x\n",
            "- " * luck.choice((100, 5000)) + good,
            good.replace(": ", ": " + "!!set ", 1),
            good + "\n" + "\n".join(f"k{n}: {n}" for n in range(2000)),
        )
    )


BREAKINGS: tuple[Breaking, ...] = (
    _value,
    _value,
    _value,
    _text_value,
    _text_value,
    _gone,
    _renamed,
    _renamed,
    _added,
    _sql,
    _sql,
    _sql,
    _sql,
    _deep_sql,
    _text,
    _text,
    _cut,
    _lines,
    _bomb,
)
