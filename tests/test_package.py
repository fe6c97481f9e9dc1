"""What is packed and what it needs: nothing is missing, and nothing is there that nobody uses."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.doctor.versions import requirements

ROOT = Path(__file__).parent.parent
DOCUMENT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = DOCUMENT["project"]
DEVELOPERS: list[str] = DOCUMENT["dependency-groups"]["dev"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
EVERYTHING = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
NOT_IMPORTED = {
    "protobuf": "Spark's stateful operators in Python import it, and PySpark does not ask for it",
    "pandas": "Spark's Python functions over Arrow import it",
    "grpcio": "PySpark's client of Spark Connect imports it",
    "grpcio-status": "PySpark's client of Spark Connect imports it",
    "googleapis-common-protos": "PySpark's client of Spark Connect imports it",
    "zstandard": "PySpark's client of Spark Connect imports it",
    "pyarrow": "it is imported by name, in penstock/arrow.py, since it has no types",
}
"""What Penstock needs and no module of it imports by a statement, with the reason."""
BROUGHT_BY = {
    "starlette": "fastapi",
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
    "py4j": "pyspark",
}
"""What is imported, and comes with something that is asked for."""
OF_DEVELOPERS = {"playwright": "page_browser"}
"""What only a benchmark of the laboratory imports, and in which module: developers have it."""
LIBRARIES = packages_distributions()


def distributions(lines: list[str]) -> set[str]:
    return {one.name.lower() for one in requirements(lines)}


def imported(path: Path) -> Iterator[str]:
    """The packages that a module imports anywhere, also late and for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.fixture(scope="module")
def used() -> dict[str, set[str]]:
    """For each foreign distribution the modules that import it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in imported(path):
            name = BROUGHT_BY.get(name, name)
            if name not in sys.stdlib_module_names and name != "penstock":
                for distribution in LIBRARIES.get(name, [name]):
                    found.setdefault(distribution.lower().replace("_", "-"), set()).add(path.stem)
    return found


def test_nothing_is_asked_for_that_nobody_uses(used: dict[str, set[str]]) -> None:
    assert distributions(EVERYTHING) - used.keys() <= NOT_IMPORTED.keys()
    assert NOT_IMPORTED.keys() <= distributions(EVERYTHING), "an exception nobody needs"


def test_nothing_is_used_that_nobody_asks_for(used: dict[str, set[str]]) -> None:
    asked = distributions(EVERYTHING)
    for name, module in OF_DEVELOPERS.items():
        assert used[name] == {module}, f"{name} is for the laboratory alone"
        assert name in DEVELOPERS
        assert list((ROOT / "src" / "penstock" / "lab").rglob(f"{module}.py"))
    missing = {
        name: sorted(where)
        for name, where in used.items()
        if name not in asked | OF_DEVELOPERS.keys()
    }
    assert missing == {}


def test_every_dependency_has_its_reason_in_the_documents() -> None:
    text = (ROOT / "docs" / "defence_of_design.md").read_text()
    section = text.partition("\n## Dependencies\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([\w-]+)`", section, re.M))
    assert named == distributions(EVERYTHING)


def test_the_extras_are_those_that_users_are_told_of() -> None:
    expected = {"spark", "connect", "kafka", "federation", "dashboard", "metrics", "experiments"}
    assert EXTRAS.keys() == expected
    told = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for names in re.findall(r"penstock\[([\w,]+)\]", told):
        assert set(names.split(",")) <= expected


def test_the_wheel_has_all_that_users_need_and_nothing_of_ours(tmp_path: Path) -> None:
    """Built as a release is, in a copy: the jar of this place may be in use."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.jar", "*.pyc"))
    shutil.copytree(ROOT / "jvm", copy / "jvm")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        told = file.read(metadata).decode()
    static = {f"penstock/dashboard/static/{name}" for name in ("index.html", "app.js", "style.css")}
    assert {"penstock/spark/penstock.jar", "penstock/py.typed", *static} <= set(names)
    assert any("vendor/" in name for name in names), "the charts of the dashboard"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"penstock", metadata.partition("/")[0]}
    modules = {f"penstock/{path.relative_to(ROOT / 'src/penstock')}" for path in _sources()}
    assert modules <= set(names)
    for extra in EXTRAS:
        assert f"Provides-Extra: {extra}" in told


def _sources() -> list[Path]:
    return list((ROOT / "src" / "penstock").rglob("*.py"))


def test_the_workflow_runs_the_commands_that_people_run() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    commands = [s["run"] for job in workflow["jobs"].values() for s in job["steps"] if "run" in s]
    made = {word for command in commands for word in re.findall(r"make (\w+)", command)}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {"setup", "test", "oldest", "package"} <= made <= targets
