"""``penstock check`` knows what a file is by the keys in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.file_kinds import sorted_by_kind
from penstock.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SITES = [EXAMPLES / "federation" / f"{name}.yaml" for name in ("rome", "oslo", "kyoto")]
QUERIES = [EXAMPLES / "federation" / f"{name}.yaml" for name in ("avg_all", "top5", "cov")]


def test_every_example_is_what_it_is() -> None:
    jobs = sorted(EXAMPLES.glob("*.yaml"))
    assert sorted_by_kind([*QUERIES, *jobs, *SITES]) == (jobs, SITES, QUERIES)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sources: {}\nqueries: {}\n", 0),
        ("site: rome\nsources: {}\nqueries: {}\n", 0),
        ("site: rome\nsources: {}\nlends: {}\n", 1),
        ("site: rome\ndirectory: state\n", 1),
        ("query: q\n", 2),
        ("sql: SELECT 1\n", 2),
        ("fragments: {}\n", 2),
        ("anything: else\n", 0),
        ("- a list\n", 0),
    ],
)
def test_files_are_told_apart(text: str, kind: int, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    assert [len(found) for found in sorted_by_kind([file])] == [int(n == kind) for n in range(3)]


def test_the_form_of_a_query_is_checked_without_its_sites(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", str(QUERIES[0])]) == 0
    said = capsys.readouterr().out
    assert "its form is good" in said
    assert "its SQL was not looked at" in said


def test_a_mistake_in_a_query_has_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "q.yaml"
    file.write_text("query: q\nsql: SELECT 1\nshap: chain\n")
    assert main(["check", str(file)]) == 2
    assert "q.yaml:3: shap: unknown key; did you mean 'shape'?" in capsys.readouterr().err


@pytest.mark.spark
def test_check_says_which_fragments_there_will_be(tmp_path: Path) -> None:
    """In a process of its own, since the command starts a Spark and ends it."""
    forwarded = tmp_path / "forwarded.yaml"
    forwarded.write_text(
        "query: forwarded\n"
        "sql: SELECT percentile(cpu, 0.5) AS m FROM rome.machines UNION ALL oslo.machines"
        " GROUP BY window(timestamp, '2 seconds')\n"
    )
    files = [str(file) for file in (*SITES, *QUERIES, forwarded)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "check", *files],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "lends rome.machines (`timestamp` timestamp, `value` bigint, `machine` string" in said
    assert "oslo-own: reads machines; weighted: cpu" in said
    assert "can be reached from this machine alone, by whoever is on this machine" in said
    assert "rome: at rome; partial aggregates; reads machines; sends to root" in said
    assert "root: at oslo; merges what it hears; hears rome, oslo, kyoto" in said
    assert "root: at the least loaded site; merges what it hears; hears kyoto-relay" in said
    assert "weighted: cpu, n; with bounds: cpu, n" in said
    assert re.search(r"oslo-relay: at oslo; adds to what it hears.*sends to kyoto-relay", said)
    assert re.search(r"forwards tuples; reads machines; sends to root", said)
    assert re.search(r"not split: .*percentile.*; so tuples are forwarded to the root", said, re.I)
