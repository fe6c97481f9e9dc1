"""The documents say what is so: laws have tests, names and links lead somewhere, examples run."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAWS = ROOT / "docs" / "laws.md"
NUMBERS = range(1, 11)

CITATION = re.compile(r"(?<![a-z])laws?[ _](\d+(?:(?:,[ _]|[ _](?:and|to)[ _])\d+)*)", re.I)
"""Law 3, laws 1 and 8, ``test_law_3_...``, ``test_laws_1_and_2_...``."""
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def cited(text: str) -> set[int]:
    """The laws that a text names."""
    return {int(number) for found in CITATION.findall(text) for number in re.findall(r"\d+", found)}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def functions(file: str) -> dict[str, str]:
    """The functions at the top of a file, each with its docstring."""
    tree = ast.parse((ROOT / file).read_text())
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: ast.get_docstring(node) or "" for node in found}


def listed_tests() -> dict[int, list[tuple[str, str]]]:
    """The tests that the document lists under each law."""
    sections = re.split(r"^## (\d+)\. .*$", LAWS.read_text(), flags=re.M)[1:]
    numbers, bodies = sections[::2], sections[1::2]
    assert [int(number) for number in numbers] == list(NUMBERS)
    return {int(number): TEST.findall(body) for number, body in zip(numbers, bodies, strict=True)}


def test_every_law_says_what_needs_it_where_it_is_upheld_and_what_tests_it() -> None:
    headings = re.findall(r"^(?:## (\d+)\.|\*\*([\w ]+)\.\*\*)", LAWS.read_text(), re.M)
    parts = ["What needs it", "Where", "Tests"]
    expected = [heading for n in NUMBERS for heading in (str(n), *parts)]
    assert [number or part for number, part in headings] == expected


@pytest.mark.parametrize("law", NUMBERS)
def test_every_law_is_held_by_tests_that_exist_and_name_it(law: int) -> None:
    listed = listed_tests()[law]
    missing = [f"{file}::{name}" for file, name in listed if name not in functions(file)]
    assert not missing, f"docs/laws.md names tests that are not there: {missing}"
    naming = [name for file, name in listed if law in cited(f"{name} {functions(file)[name]}")]
    assert naming, f"no test that docs/laws.md lists under law {law} names it"


def test_only_laws_that_exist_are_cited() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: law {number}"
        for path in [*python_files("src", "tests"), *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
        for number in cited(path.read_text()) - set(NUMBERS)
    }
    assert not wrong


def test_citations_are_read() -> None:
    assert cited("Laws 1 and 8; law 10, test_laws_2_and_3_hold, test_law_4_in_9_plants") == {
        1,
        2,
        3,
        4,
        8,
        10,
    }
    assert cited("flaw 5, Little's law says 6, law seven") == set()
