"""The documents say what is so: laws have tests, names and links lead somewhere, examples run."""

from __future__ import annotations

import ast
import doctest
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from penstock import Site
from penstock import functions as sf
from penstock.cli.main import main

ROOT = Path(__file__).parent.parent
LAWS = ROOT / "docs" / "laws.md"
NUMBERS = range(1, 11)

CITATION = re.compile(r"(?<![a-z])laws?[ _](\d+(?:(?:,[ _]|[ _](?:and|to)[ _])\d+)*)", re.I)
"""Law 3, laws 1 and 8, ``test_law_3_...``, ``test_laws_1_and_2_...``."""
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FILE = re.compile(
    r"(?<![\w/.~-])((?:[\w-]+/)*\w+\.py|(?:docs|examples|penstock|scripts|src|tests)/[\w./-]*\w/?)"
)
"""A Python file, or anything in a folder of this repository."""
MODULE = re.compile(r"(?<![\w./-])penstock(?:\.[A-Za-z_]\w*)+")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
IMPORT = re.compile(r"^(?:from penstock[\w.]* import|import penstock)\b.*$", re.M)
OF_A_SITE = re.compile(r"(?<![\w/-])site\.([a-z_]+)")
OF_FUNCTIONS = re.compile(r"\bsf\.([a-z_]+)")
TARGET = re.compile(r"(?:`|^```\n|^(?=make [a-z]+ +#))make ([a-z]+)", re.M)
"""A target of the Makefile: in a block of commands, or quoted in a text."""
COMMAND = re.compile(r"(?:`|^|\$ )penstock ([a-z]+)", re.M)
EXAMPLE = re.compile(r"^\s*>>> ", re.M)
EXAMPLE_WITH_SPARK = re.compile(r"^\s*>>> .*\bspark\b", re.M)

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
EVERY_DOCUMENT = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


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


def test_what_happens_on_faults_is_held_by_tests_that_exist() -> None:
    named = TEST.findall((ROOT / "docs" / "operations.md").read_text())
    assert len(named) > 10
    assert [f"{file}::{name}" for file, name in named if name not in functions(file)] == []


def test_what_works_through_spark_connect_is_held_by_tests_that_exist() -> None:
    named = TEST.findall((ROOT / "docs" / "where_it_runs.md").read_text())
    assert len(named) >= 4
    assert [f"{file}::{name}" for file, name in named if name not in functions(file)] == []


def test_only_laws_that_exist_are_cited() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: law {number}"
        for path in [*python_files("src", "tests"), *DOCUMENTS]
        for number in cited(path.read_text()) - set(NUMBERS)
    }
    assert not wrong


def test_citations_are_read() -> None:
    assert cited("Laws 1 and 8; law 10, test_laws_2_and_3_hold") == {1, 2, 3, 8, 10}
    assert cited("test_law_4_in_9_plants") == {4}
    assert cited("flaw 5, Little's law says 6, law seven") == set()


# --- names, paths and links ------------------------------------------------------------------


def is_a_file(name: str) -> bool:
    """From the repository's top, or from the package's: ``core/controller.py``."""
    return any((ROOT / place / name).exists() for place in ("", "src", "src/penstock"))


def is_a_name(dotted: str) -> bool:
    """A module, or something in one."""
    try:
        import_module(dotted)
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return bool(module) and is_a_name(module) and hasattr(import_module(module), name)
    return True


def anchors(text: str) -> set[str]:
    """The headings of a document as links spell them."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.replace(" ", "-") for heading in kept}


@EVERY_DOCUMENT
def test_files_and_modules_that_a_document_names_exist(document: Path) -> None:
    text = document.read_text()
    assert [name for name in FILE.findall(text) if not is_a_file(name)] == []
    assert [name for name in MODULE.findall(text) if not is_a_name(name)] == []


@EVERY_DOCUMENT
def test_links_of_a_document_lead_somewhere(document: Path) -> None:
    for name, anchor in LINK.findall(document.read_text()):
        target = document.parent / name if name else document
        assert target.exists(), f"{document.name} links to {name}"
        assert not anchor or anchor in anchors(target.read_text()), f"{name} has no #{anchor}"


@EVERY_DOCUMENT
def test_python_in_a_document_is_python_and_names_what_exists(document: Path) -> None:
    """Every block compiles; what it imports is there, and so is what it takes of a site."""
    for block in BLOCK.findall(document.read_text()):
        compile(block, document.name, "exec")
        for line in IMPORT.findall(block):
            exec(line, {})
    text = document.read_text()
    assert [name for name in OF_A_SITE.findall(text) if not hasattr(Site, name)] == []
    assert [name for name in OF_FUNCTIONS.findall(text) if not hasattr(sf, name)] == []


def test_commands_that_documents_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    names = {name for document in DOCUMENTS for name in COMMAND.findall(document.read_text())}
    assert {"run", "simulate"} <= names
    for name in sorted(names):
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0, capsys.readouterr().err


def test_targets_that_documents_name_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {name for document in DOCUMENTS for name in TARGET.findall(document.read_text())}
    assert {"setup", "test", "demo"} <= named
    assert named <= targets


def test_no_document_takes_the_name_of_pandas_on_spark() -> None:
    assert [path.name for path in DOCUMENTS if "import penstock as ps" in path.read_text()] == []


def test_what_is_not_there_is_noticed() -> None:
    text = "`core/nothing.py`, tests/gone/, penstock.core.nobody, penstock.core.types.Nothing"
    assert [is_a_file(name) for name in FILE.findall(text)] == [False, False]
    assert [is_a_name(name) for name in MODULE.findall(text)] == [False, False]
    text = "`core/types.py`, tests/core/, penstock.core.types, `penstock.core.types.Plan`."
    assert [is_a_file(name) for name in FILE.findall(text)] == [True, True]
    assert [is_a_name(name) for name in MODULE.findall(text)] == [True, True]


# --- examples in docstrings --------------------------------------------------------------------


def modules_with_examples() -> list[ParameterSet]:
    found = []
    for path in python_files("src"):
        text = path.read_text()
        if EXAMPLE.search(text):
            parts = path.relative_to(ROOT / "src").with_suffix("").parts
            name = ".".join(part for part in parts if part != "__init__")
            marks = [pytest.mark.spark] if EXAMPLE_WITH_SPARK.search(text) else []
            found.append(pytest.param(name, marks=marks))
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_right(name: str, request: pytest.FixtureRequest) -> None:
    """An example that uses ``spark`` gets the tests' session, which is started for it alone."""
    cases = doctest.DocTestFinder().find(import_module(name))
    examples = [example for case in cases for example in case.examples]
    assert examples, f"{name} has examples that doctest does not find"
    if any(re.search(r"\bspark\b", example.source) for example in examples):
        session = request.getfixturevalue("spark")
        for case in cases:
            case.globs["spark"] = session
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for case in cases:
        runner.run(case, out=said.append)
    assert not runner.failures, "".join(said)
