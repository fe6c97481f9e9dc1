"""What somebody sees while a job runs."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.cli.run import described
from penstock.cli.run_view import (
    RecentRates,
    RunLines,
    RunMoment,
    RunScreen,
    backlog,
    held_back,
    latency,
    line,
    table,
    view,
    would_be,
)
from penstock.sql import rewrite
from tests.sql.cases import SOURCES, WINDOW

QUERY = {
    "id": "fares",
    "arrived": 120_000,
    "admitted": 30_000,
    "shed": 90_000,
    "sic": 0.27,
    "latency_ms": {"p50": 900.0, "p95": 1400.0, "p99": 1600.0, "measured": True},
    "batches": 12,
    "backlog": 4_321,
    "held_back_by": None,
    "let_in_per_second": None,
    "arriving_per_second": None,
}
REPORT = {
    "queries": [QUERY, QUERY | {"id": "trips", "arrived": 10, "admitted": 10, "shed": 0}],
    "site": {"capacity": 1000.0, "utilisation": 0.8, "jain": 0.99},
    "ledger_balanced": True,
    "watch": False,
}
WOULD = {"would_shed": 70_000, "would_latency_ms": 1900.0}
WATCHING = REPORT | {"queries": [QUERY | WOULD], "watch": True}


def moment(elapsed: float) -> RunMoment:
    return RunMoment(elapsed, {"trips": 1.0, "fares": 0.25}, REPORT)


def test_a_plain_line() -> None:
    assert line(moment(12.3)) == (
        "[  12 s] arrived 120,010  admitted 30,010  shed 90,000  SIC: fares 0.25  trips 1.00"
    )


def test_what_is_shed_and_why_and_latency_against_the_target() -> None:
    """As the page has it: over the last STW; a full bar is a batch at the target."""
    rates = RecentRates(stw_seconds=10.0)
    assert rates.note(0.0, {"queries": []}) == (0.0, 0.0)
    for second in range(1, 31):
        told = {"queries": [{"admitted": 300 * second, "shed": 900 * max(0, second - 10)}]}
        found = rates.note(float(second), told)
    assert found == (300.0, 900.0)
    late = {"fares": [0.3, 1.5, 3.5]}
    now = RunMoment(9.0, {"fares": 0.25}, REPORT, 3.0, late, *found)
    why = "the site sheds 75 %: 1,200 tuples a second come, and it can admit 1,000"
    assert line(now).endswith(f"; {why}")
    console = Console(file=io.StringIO(), width=140)
    with console.capture() as captured:
        console.print(table(now))
    text = captured.get()
    assert "1.4 s of 3 s" in text
    assert "▁▅█" in text
    assert latency({"p95": 1400.0, "measured": False}, 3.0) == "1.4 s of 3 s (modelled)"


HELD_BACK = {
    "held_back_by": "maxOffsetsPerTrigger",
    "let_in_per_second": 30_000.0,
    "arriving_per_second": 60_000.0,
}
SENTENCE = "fares is held back by maxOffsetsPerTrigger: it lets in 30,000 tuples a second"


def test_a_read_limit_that_holds_a_query_back_is_named_with_two_figures() -> None:
    told = {**REPORT, "queries": [QUERY | HELD_BACK]}
    assert held_back(told) == [f"{SENTENCE}, 60,000 arrive"]
    assert line(RunMoment(1.0, {}, told)).endswith(f"; {SENTENCE}, 60,000 arrive")
    in_files = QUERY | HELD_BACK | {"arriving_per_second": None}
    assert held_back({**REPORT, "queries": [in_files]}) == [SENTENCE]
    screen = RunScreen(Console(file=io.StringIO(), width=120, force_terminal=True), "rome")
    with screen:
        screen.moment(RunMoment(1.0, {}, told))
        console = Console(file=io.StringIO(), width=120)
        with console.capture() as captured:
            console.print(screen.picture())
    assert f"{SENTENCE}, 60,000 arrive" in captured.get()


def test_a_latency_that_is_not_measured_is_called_modelled() -> None:
    assert latency({"p95": 1400.0, "measured": True}) == "1.4 s"
    assert latency({"p95": 1400.0, "measured": False}) == "1.4 s (modelled)"


def test_a_backlog_may_be_unknown() -> None:
    assert (backlog(4_321), backlog(0), backlog(None)) == ("4,321", "0", "unknown")


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
    for part in (
        "rome",
        "running",
        "fares",
        "90,000",
        "0.25",
        "1.4 s",
        "4,321",
        "busy 80%",
        "Jain 0.990",
    ):
        assert part in text


def test_a_site_that_only_watches_says_so() -> None:
    now = RunMoment(12.3, {"fares": 1.0}, WATCHING)
    assert line(now).endswith("SIC: fares 1.00  only watching: would shed 70,000")
    assert would_be(QUERY | WOULD) == "would shed 70,000, latency p95 1.9 s (modelled)"
    console = Console(file=io.StringIO(), width=140)
    with console.capture() as captured:
        console.print(table(now))
    text = captured.get()
    for part in ("only watching: nothing is shed", "would shed", "modelled", "70,000", "1.9 s"):
        assert part in text


def test_check_says_what_becomes_of_columns() -> None:
    query = f"SELECT k, avg(v) AS a, sum(v) / 2 AS h, max(v) AS b FROM s GROUP BY {WINDOW}, k"
    assert described(rewrite(query, SOURCES, confidence=0.95)) == (
        "reads s; weighted: a, h; unscaled: b; with bounds: a"
    )
