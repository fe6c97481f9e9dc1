"""What people read: the plan's answer, the help, and one line for every mistake."""

import io
import json
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from penstock.cli.main import COMMANDS, main

EXAMPLE = (
    '{"policy": "balance-sic", "capacity": 10, "queries": [{"id": "q1", "sic": 0.0, "weight": 1,'
    ' "floor": 0, "strata": [{"id": "s1", "tuples": 20, "sic": 0.05, "cost": 1}]}]}'
)


def _plan(monkeypatch: pytest.MonkeyPatch, text: str | bytes, *arguments: str) -> int:
    stream = io.TextIOWrapper(io.BytesIO(text.encode() if isinstance(text, str) else text))
    monkeypatch.setattr(sys, "stdin", stream)
    return main(["plan", *arguments])


def test_the_example_of_the_format(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan(monkeypatch, EXAMPLE) == 0
    assert json.loads(capsys.readouterr().out) == {
        "used": 10.0,
        "jain": 1.0,
        "mean_sic": 0.5,
        "queries": [{"id": "q1", "sic": 0.5, "strata": [{"id": "s1", "rate": 0.5, "kept": 10.0}]}],
    }


def test_the_file_may_name_the_policy_and_the_option_wins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {
        "policy": "uniform",
        "capacity": 30,
        "queries": [
            {"id": "a", "strata": [{"id": "x", "tuples": 10, "sic": 0.1}]},
            {"id": "b", "strata": [{"id": "x", "tuples": 50, "sic": 0.02}]},
        ],
    }
    answers = {}
    for arguments in ((), ("--policy", "max-min"), ("--policy", "balance-sic")):
        assert _plan(monkeypatch, json.dumps(document), *arguments) == 0
        queries = json.loads(capsys.readouterr().out)["queries"]
        answers[arguments[-1:]] = [q["strata"][0]["kept"] for q in queries]
    assert answers == {
        (): pytest.approx([5, 25]),
        ("max-min",): pytest.approx([10, 20]),
        ("balance-sic",): pytest.approx([5, 25]),
    }


def test_a_query_with_nothing_waiting_keeps_its_sic(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {
        "capacity": 5,
        "queries": [
            {"id": "idle", "sic": 0.9, "strata": []},
            {"id": "busy", "strata": [{"id": "x", "tuples": 10, "sic": 0.1}]},
        ],
    }
    assert _plan(monkeypatch, json.dumps(document)) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [q["sic"] for q in answer["queries"]] == pytest.approx([0.9, 0.5])
    assert answer["jain"] == pytest.approx(1.4**2 / (2 * (0.81 + 0.25)))


def _changed(path: str, value: Any) -> str:
    document = json.loads(EXAMPLE)
    spot, *rest = path.split(".")
    place: Any = document
    for step in [spot, *rest][:-1]:
        place = place[int(step) if step.isdigit() else step]
    place[path.split(".")[-1]] = value
    return json.dumps(document)


STRATUM = {"id": "s1", "tuples": 1, "sic": 1}
BAD = {
    "": "line 1, column 1: this is not JSON",
    "{": "line 1, column 2: this is not JSON",
    "capacity: 10": "line 1, column 1: this is not JSON",
    "[]": "the document must be an object, such as {...}; got []",
    "null": "the document must be an object, such as {...}; got null",
    "{}": "the document: 'capacity' is missing",
    '{"capacity": 1}': "the document: 'queries' is missing",
    '{"capacity": 1, "capacity": 2, "queries": []}': "the document: the key 'capacity' is given",
    '{"capacity": 1, "queries": [{"id": "a", "id": "b"}]}': "queries[0]: the key 'id' is given",
    "[" * 100_000: "nested far too deeply",
    _changed("capacity", -1): "capacity must be 0 or more, such as 10; got -1",
    _changed("capacity", "ten"): 'capacity must be a number, such as 10; got "ten"',
    _changed("capacity", True): "capacity must be a number, such as 10; got true",
    _changed("capacity", float("nan")): "capacity must be finite, such as 10; got NaN",
    _changed("capacity", float("inf")): "capacity must be finite, such as 10; got Infinity",
    _changed("capacity", 10**400): "capacity must be finite, such as 10; got 1000",
    '{"capacity": ' + "9" * 5000 + "}": "a number has thousands of digits",
    _changed("queries.0.strata.0.tuples", 1e308): "queries[0].strata[0].tuples must be at most",
    _changed("queries.0.weight", 1e-9): "queries[0].weight must be between 1e-6 and",
    _changed("queries", []): "queries must have at least one query",
    _changed("queries", {}): "queries must be a list, such as [...]; got {}",
    _changed("queries", [3]): "queries[0] must be an object, such as {...}; got 3",
    _changed("queries.0.strata", 3): "queries[0].strata must be a list, such as [...]; got 3",
    _changed("queries.0.id", ""): "queries[0].id must be a name in quotes",
    _changed("queries.0.weigth", 1): "queries[0]: unknown key 'weigth'; did you mean 'weight'?",
    _changed("queries.0.weight", 0): "queries[0].weight must be above 0, such as 2; got 0",
    _changed("queries.0.floor", -0.1): "queries[0].floor must be 0 or more, such as 10; got -0.1",
    _changed("queries.0.strata.0.tuples", None): "queries[0].strata[0].tuples must be a number",
    _changed("queries.0.strata.0.cost", -2): "queries[0].strata[0].cost must be 0 or more",
    _changed("queries.0.strata.0.colour", 1): "queries[0].strata[0]: unknown key 'colour'; there",
    _changed("queries.0.strata", [STRATUM] * 2): "queries[0].strata[1].id: 's1' is already the id",
    _changed("queries", [{"id": "q", "strata": []}] * 2): "queries[1].id: 'q' is already the id of",
    _changed("policy", "fair"): "policy: unknown policy 'fair'",
    _changed("policy", 3): 'policy must be a name in quotes, such as "q1"; got 3',
    _changed("polcy", "uniform"): "the document: unknown key 'polcy'; did you mean 'policy'?",
}


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=range(len(BAD)))
def test_bad_input_is_one_line_that_names_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert _plan(monkeypatch, text) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("penstock plan: ")
    assert message in error
    assert error.count("\n") == 1


def test_bad_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "no/such.json"]) == 2
    assert capsys.readouterr().err == "penstock plan: no/such.json: No such file or directory\n"
    assert _plan(monkeypatch, b"\xff\xfe") == 2
    assert "not text in UTF-8" in capsys.readouterr().err


def test_help_has_an_example_that_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["plan", "--help"])
    text = capsys.readouterr().out
    document = text[text.index("<<'END'") + 7 : text.index("  END\n")]
    assert _plan(monkeypatch, document) == 0
    queries = json.loads(capsys.readouterr().out)["queries"]
    assert [q["strata"][0]["kept"] for q in queries] == pytest.approx([10 / 3, 20 / 3])
    assert "q1 keeps 3.3 tuples and q2 keeps 6.7" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: penstock {name} [-h]")
    description = import_module(COMMANDS[name].module).DESCRIPTION
    assert "".join(description.split()) in "".join(text.split())


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, (_, summary) in COMMANDS.items():
        assert f" {name} {summary}" in text


@pytest.mark.parametrize("arguments", [[], ["fly"], ["--fast", "plan"]])
def test_what_is_no_command_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err.startswith("usage: penstock ")


def test_the_help_loads_no_command_and_nothing_heavy() -> None:
    program = """
import sys
from penstock.cli.main import COMMANDS, main
try:
    main(["--help"])
except SystemExit:
    loaded = [listed.module for listed in COMMANDS.values()]
    heavy = [*loaded, "numpy", "pydantic", "yaml", "rich", "penstock.lab", "pyspark"]
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stderr == "[]\n"


@pytest.mark.parametrize("module", ["penstock", "penstock.core.controller", "penstock.cli"])
def test_the_core_imports_neither_spark_nor_the_web(module: str) -> None:
    heavy = (
        "pyspark py4j pandas pyarrow scipy matplotlib rich starlette uvicorn http.server aiohttp"
    )
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, {module}; print([m for m in {heavy.split()} if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "[]\n"
