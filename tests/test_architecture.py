"""The structure of the product: who may import whom, and one name for one thing.

Each rule is checked on the product, and on a small made-up package that breaks it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from tests.architecture import (
    SourceTree,
    cycle_of_modules,
    cycle_of_rooms,
    doubled_classes,
    doubled_modules,
    forbidden_imports,
    imports_into,
    uses_of_words,
)

SPARK = ("pyspark", "py4j", "penstock.spark")
CLOCKS_AND_LUCK = ("time", "datetime", "random", "secrets", "sched", "calendar")
INPUT_AND_OUTPUT = (  # a lock is neither, so that threading is not among them
    "asyncio",
    "concurrent",
    "http",
    "io",
    "json",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "pickle",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "urllib",
    "yaml",
)
PRIVATE_PARTS_OF_SPARK = (
    "_jvm",
    "_jdf",
    "_jsq",
    "_jsc",
    "_jsparkSession",
    "_gateway",
    "java_gateway",
    "py4j",
    "pyspark.sql.classic",
)
THE_ADAPTER = "penstock.spark.engine"

MODULES_THAT_MAY_SHARE_A_NAME: dict[str, str] = {}
"""The last part of a module's name, and the reason why two modules may have it."""
CLASSES_THAT_MAY_SHARE_A_NAME: dict[str, str] = {}
"""The name of a class, and the reason why two modules may define it."""


@pytest.fixture(scope="module")
def product() -> SourceTree:
    return SourceTree.read(Path(penstock.__path__[0]))


@pytest.fixture
def made_up(tmp_path: Path) -> Callable[[dict[str, str]], SourceTree]:
    """Writes a package ``p``, with a text for each file; parent packages come on their own."""

    def write(files: dict[str, str]) -> SourceTree:
        for name, text in files.items():
            path = tmp_path / "p" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for directory in {path.parent for path in (tmp_path / "p").rglob("*.py")}:
            (directory / "__init__.py").touch()
        (tmp_path / "p" / "__init__.py").touch()
        return SourceTree.read(tmp_path / "p")

    return write


MakeUp = Callable[[dict[str, str]], SourceTree]


def test_no_two_rooms_import_each_other(product: SourceTree) -> None:
    assert cycle_of_rooms(product) == []


def test_no_two_modules_import_each_other(product: SourceTree) -> None:
    assert cycle_of_modules(product) == []


def test_cycles_are_seen(made_up: MakeUp) -> None:
    tree = made_up(
        {
            "a/one.py": "import p.b.two",
            "b/two.py": "def late():\n    from p.a import other",
            "a/other.py": "",
        }
    )
    assert cycle_of_modules(tree) == []
    assert set(cycle_of_rooms(tree)) == {"p.a", "p.b"}
    tree = made_up({"a/other.py": "from . import one"})
    assert set(cycle_of_modules(tree)) == {"p.a.one", "p.b.two", "p.a.other"}


def test_imports_for_types_alone_do_not_count(made_up: MakeUp) -> None:
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import two\n"
    tree = made_up({"a/one.py": guarded, "b/two.py": "import p.a.one"})
    assert cycle_of_rooms(tree) == []
    tree = made_up({"a/one.py": f"{guarded}else:\n    from p.b import two\n"})
    assert set(cycle_of_rooms(tree)) == {"p.a", "p.b"}


def test_the_core_has_no_spark_no_clock_and_no_input(product: SourceTree) -> None:
    forbidden = (*SPARK, *CLOCKS_AND_LUCK, *INPUT_AND_OUTPUT)
    assert forbidden_imports(product, "core", forbidden) == []


@pytest.mark.parametrize("room", ["guard", "sources"])
def test_what_runs_in_workers_loads_neither_pandas_nor_the_driver(
    product: SourceTree, room: str
) -> None:
    assert forbidden_imports(product, room, ("pandas", "penstock.spark")) == []


def test_forbidden_imports_are_seen_through_other_modules(made_up: MakeUp) -> None:
    tree = made_up(
        {
            "core/plan.py": "from p.leaf import x",
            "leaf.py": "from p.deep.inner import x",
            "deep/__init__.py": "def now():\n    from time import monotonic",
            "deep/inner.py": "import os.path\nimport timeit",
            "beside.py": "import time",
        }
    )
    assert forbidden_imports(tree, "core", ("time", "os")) == [
        "p.deep imports time.monotonic",
        "p.deep.inner imports os.path",
    ]


@pytest.mark.parametrize("room", ["lab", "testing"])
def test_nothing_of_the_product_imports(product: SourceTree, room: str) -> None:
    assert imports_into(product, room) == []


def test_imports_into_a_room_are_seen(made_up: MakeUp) -> None:
    tree = made_up(
        {"lab/one.py": "import p.lab.two", "lab/two.py": "", "cli.py": "from p.lab import two"}
    )
    assert imports_into(tree, "lab") == ["p.cli imports p.lab.two"]


def test_one_file_knows_the_private_parts_of_spark(product: SourceTree) -> None:
    assert uses_of_words(product, PRIVATE_PARTS_OF_SPARK, THE_ADAPTER) == []


def test_private_parts_are_seen(made_up: MakeUp) -> None:
    tree = made_up(
        {
            "a.py": "def f(x):\n    return x._jvm",
            "b.py": "def f(x):\n    return getattr(x, '_jdf')",
            "c.py": "from pyspark.sql.classic.column import Column",
            "d.py": '"""Tells of _jvm in words."""\nmy_jvm = 1',
            "engine.py": "import py4j",
        }
    )
    words = ("_jvm", "_jdf", "py4j", "pyspark.sql.classic")
    assert uses_of_words(tree, words, "p.engine") == [
        "p.a has _jvm",
        "p.b has _jdf",
        "p.c has pyspark.sql.classic",
    ]


def test_a_module_name_stands_for_one_thing(product: SourceTree) -> None:
    found = doubled_modules(product)
    assert {name: found[name] for name in found if name not in MODULES_THAT_MAY_SHARE_A_NAME} == {}
    assert found.keys() >= MODULES_THAT_MAY_SHARE_A_NAME.keys(), "an exception nobody needs"


def test_a_class_name_stands_for_one_thing(product: SourceTree) -> None:
    found = doubled_classes(product)
    assert {name: found[name] for name in found if name not in CLASSES_THAT_MAY_SHARE_A_NAME} == {}
    assert found.keys() >= CLASSES_THAT_MAY_SHARE_A_NAME.keys(), "an exception nobody needs"


def test_doubled_names_are_seen(made_up: MakeUp) -> None:
    tree = made_up(
        {
            "a/gate.py": "class Gate: ...\nclass _Own: ...",
            "b/gate.py": "class Gate: ...\nclass _Own: ...\nclass Other:\n    class Java: ...",
            "c/site.py": "class Site:\n    class Java: ...",
        }
    )
    assert doubled_modules(tree) == {"gate": ["p.a.gate", "p.b.gate"]}
    assert doubled_classes(tree) == {"Gate": ["p.a.gate", "p.b.gate"]}
