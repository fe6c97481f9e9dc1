"""Programs and commands that documents print run as they are printed.

Each runs in a process of its own and an empty folder, as it would for a reader who copies it. They
run for a fixed time once Spark is warm, and what must hold then must hold on a busy machine, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import replay
from tests.cli.test_up import COMMAND
from tests.spark.support import wait_until

ROOT = Path(__file__).parent.parent
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
"""A block of code: its language and its text."""
SAVED = re.compile(r"Save this as `([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.M | re.S)
"""A file that the reader is told to write."""
LONGEST_RUN_SECONDS = 420

WHAT_THE_TUTORIAL_SAYS = """
told = report["means"]
took = [batch.batchDuration for batch in plain.recentProgress]  # none has ended: slower still
assert not took or took[-1] > 1500, "the plain job keeps up"
assert told.shed > 0 and 0 < told.sic < 1, told
assert told.arrived == told.admitted + told.shed and report.ledger_balanced, report
assert shared["alarms"] > shared["means"], shared
estimated = spark.table("estimates").collect()
assert estimated, "no window was answered"
assert all(row.mean.low <= row.mean.value <= row.mean.high for row in estimated), estimated
assert any(row.sic < 1 for row in estimated), estimated
print("AS THE TUTORIAL SAYS")
spark.stop()
"""
"""What holds when all Python of the tutorial has run, in its own names."""


def blocks(document: Path, language: str) -> list[str]:
    found = BLOCK.findall(document.read_text())
    return [text for its_language, text in found if its_language == language]


def run(command: list[str], folder: Path) -> str:
    """What a command prints; it is run with this Python and this ``penstock``."""
    beside = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(folder),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def run_program(text: str, folder: Path) -> str:
    program = folder / "program.py"
    program.write_text(text)
    return run([sys.executable, str(program)], folder)


def answers(text: str, folder: Path, seconds: str, row: re.Pattern[str]) -> str:
    """What a program prints in its time; where a busy machine answered no window by then, what it
    prints in two minutes. ``seconds`` is where it says for how long it runs.
    """
    assert text.count(seconds) == 1
    said = run_program(text, folder)
    if row.search(said):
        return said
    return run_program(text.replace(seconds, re.sub(r"\d+", "120", seconds)), folder)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(LONGEST_RUN_SECONDS + 30)
def test_the_program_in_the_readme_runs_and_says_how_complete_its_results_are(
    tmp_path: Path,
) -> None:
    program = blocks(README, "python")[0]
    said = answers(program, tmp_path, "awaitTermination(30)", re.compile(r"^\|\{", re.M))
    tables = [line.split("|")[1:-1] for line in said.splitlines() if line.startswith("|")]
    header = [name.strip() for name in tables[0]]
    assert header == ["window", "key", "avg(reading.value)", "avg(errors)", "count(1)", "sic"]
    complete = [float(row[-1]) for row in tables if row[0].startswith("{")]
    assert complete
    assert all(0 < sic <= 1 for sic in complete)
    assert re.search(r"QueryReport\(id='readings', arrived=[1-9]", said)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(LONGEST_RUN_SECONDS + 30)
def test_the_example_in_python_runs_without_a_broker(tmp_path: Path) -> None:
    row = re.compile(r"^\|\{[^|]+\|r\d+ *\|\{[^|]+\|\d+ *\|[\d.]+ *\|$", re.M)
    program = (ROOT / "examples" / "fares.py").read_text()
    said = answers(program, tmp_path, "SECONDS = 20", row)
    assert row.search(said), said
    assert re.search(r"QueryReport\(id='fares', arrived=[1-9]", said)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(LONGEST_RUN_SECONDS + 30)
def test_the_python_of_the_tutorial_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    program = "\n".join([*blocks(TUTORIAL, "python"), WHAT_THE_TUTORIAL_SAYS])
    assert "AS THE TUTORIAL SAYS" in run_program(program, tmp_path)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(LONGEST_RUN_SECONDS + 30)
def test_the_commands_of_the_tutorial_run_and_the_ledger_survives(tmp_path: Path) -> None:
    for name, text in SAVED.findall(TUTORIAL.read_text()):
        (tmp_path / name).write_text(text)
    said = [run(["bash", "-e", "-c", text], tmp_path) for text in blocks(TUTORIAL, "sh")]
    assert "fares.yaml: good" in said[0]
    kept = {query["id"]: query["sic"] for query in json.loads(said[1])["queries"]}
    assert kept == {"fares": pytest.approx(1 / 6), "alarms": pytest.approx(1 / 6)}
    assert "ledger balanced" in said[2]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ledger_balanced"]
    assert report["queries"][0]["arrived"] > 0
    assert (tmp_path / "state" / "site" / "ledger.jsonl").read_text().count("\n") > 1


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(2 * LONGEST_RUN_SECONDS + 30)
def test_the_commands_about_federations_run_and_leave_nothing_behind(tmp_path: Path) -> None:
    for file in (ROOT / "examples" / "federation").glob("*.yaml"):
        shutil.copy(file, tmp_path)
    tried_out, by_hand = blocks(ROOT / "docs" / "federation.md", "sh")
    assert tried_out.strip() == COMMAND  # which test_up runs
    said = run(["bash", "-e", "-c", by_hand], tmp_path)
    assert "root: at oslo; merges what it hears; hears rome, oslo, kyoto" in said
    places = re.findall(
        r"^avg-all runs: rome at rome, oslo at oslo, kyoto at kyoto, (.*)$", said, re.M
    )
    assert places == ["root at oslo", "root at kyoto"]
    assert re.search(r"^avg-all is stopped: .*root@avg-all$", said, re.M)
    assert "ended" in (tmp_path / "rome.log").read_text()


def test_the_python_of_the_simulator_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec("\n".join(blocks(ROOT / "docs" / "simulator.md", "python")), {})
    assert "Spread(" in capsys.readouterr().out


def test_the_python_about_concepts_is_accepted(spark: SparkSession) -> None:
    rides = replay(spark, generator="rides", rate=100)
    raw = rides.withColumnRenamed("_arrival", "pickup")
    clicks = rides.selectExpr("_arrival AS at", "route AS page", "route AS user", "fare AS seconds")
    names = {"spark": spark, "raw": raw, "clicks": clicks}
    outcome = executed(ROOT / "docs" / "concept.md", names)
    assert outcome["out"].columns[-2:] == ["avg(fare)", "within"]
    assert {"start", "end", "group", "fare", "kept"} <= set(outcome["medians"].columns)
    outcome["site"].stop()


def test_the_python_about_watching_runs(spark: SparkSession) -> None:
    names = {"spark": spark, "raw": replay(spark, generator="rides", rate=100)}
    report = executed(ROOT / "docs" / "watch.md", names)["report"]
    assert report.watch
    assert all(query.shed == 0 and query.would_shed == 0 for query in report.queries)


def test_the_python_about_guards_runs(spark: SparkSession) -> None:
    rides = replay(spark, generator="rides", rate=100, routes=3)
    requests = rides.selectExpr("route AS model", "route AS tenant", "_arrival AS arrived_at")
    names = {"spark": spark, "requests": requests, "score": lambda _: 1.0}
    outcome = executed(ROOT / "docs" / "las.md", names)
    site = outcome["site"]
    try:
        wait_until(lambda: site.report().guards[-1]["kept"] > 0, what="a tuple behind the guard")
    finally:
        site.stop()


def executed(document: Path, names: dict[str, Any]) -> dict[str, Any]:
    """The names that there are when all blocks of a document have run, in the tests' session."""
    exec("\n".join(blocks(document, "python")), names)
    return names


def test_what_is_not_a_block_is_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```\nmake setup\n```\n\n```python\na = 1\n```\n\n```sh\necho\n```\n")
    assert blocks(page, "python") == ["a = 1\n"]
    assert blocks(page, "sh") == ["echo\n"]
