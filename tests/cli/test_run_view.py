"""What somebody sees while a job runs."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.cli.run import described
from penstock.cli.run_view import RunLines, RunMoment, RunScreen, line, view
from penstock.sql import rewrite
from tests.sql.cases import SOURCES, WINDOW

QUERY = {
    "id": "fares",
    "arrived": 120_000,
    "admitted": 30_000,
    "shed": 90_000,
    "sic": 0.27,
    "latency_ms": {"p50": 900.0, "p95": 1400.0, "p99": 1600.0},
    "batches": 12,
}
REPORT = {
    "queries": [QUERY, QUERY | {"id": "trips", "arrived": 10, "admitted": 10, "shed": 0}],
    "site": {"capacity": 1000.0, "utilisation": 0.8, "jain": 0.99},
    "ledger_balanced": True,
}


def moment(elapsed: float) -> RunMoment:
    return RunMoment(elapsed, {"trips": 1.0, "fares": 0.25}, REPORT)


def test_a_plain_line() -> None:
    assert line(moment(12.3)) == (
        "[  12 s] arrived 120,010  admitted 30,010  shed 90,000  SIC: fares 0.25  trips 1.00"
    )


def test_plain_lines_come_once_a_second() -> None:
    file = io.StringIO()
    seen = view(Console(file=file), "rome")
    assert isinstance(seen, RunLines)
    with seen:
        seen.stage("starting Spark")
        for tenth in range(25):
            seen.moment(moment(tenth / 10))
    lines = file.getvalue().splitlines()
    assert lines[0] == "starting Spark"
    assert [text[:8] for text in lines[1:]] == ["[   0 s]", "[   1 s]", "[   2 s]"]


def test_a_terminal_gets_a_table() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    screen = RunScreen(console, "rome")
    with screen:
        screen.stage("running")
        screen.moment(moment(3.0))
        with console.capture() as captured:
            console.print(screen.picture())
    text = captured.get()
    for part in ("rome", "running", "fares", "90,000", "0.25", "1.4 s", "busy 80%", "Jain 0.990"):
        assert part in text


def test_check_says_what_becomes_of_columns() -> None:
    query = f"SELECT k, avg(v) AS a, sum(v) / 2 AS h, max(v) AS b FROM s GROUP BY {WINDOW}, k"
    assert described(rewrite(query, SOURCES, confidence=0.95)) == (
        "reads s; weighted: a, h; unscaled: b; with bounds: a"
    )
