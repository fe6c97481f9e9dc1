"""The demo: its arithmetic against obvious references, and the whole of it as a user starts it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from penstock.cli.demo.calibrate import Machine
from penstock.cli.demo.meter import (
    Commit,
    Latency,
    Reading,
    best_rate,
    latency,
    marginal_rate,
    oldest,
)
from penstock.cli.demo.picture import picture
from penstock.cli.demo.screen import DemoScreen, latency_by_time, plot, scale
from penstock.cli.demo.show import (
    DEMO_SECONDS,
    LONGEST_RUN_SECONDS,
    SHORTEST_RUN_SECONDS,
    length,
    show,
)
from penstock.cli.demo.summary import Verdict, as_json, conclusion, table, windows_due
from penstock.cli.demo.truth import Accuracy, Pool, accuracy
from penstock.cli.demo.view import Clock, DemoLines, line
from penstock.cli.demo.workload import BURST_FACTOR, CALM_FACTOR, Workload
from penstock.cli.interrupt import Interrupt
from penstock.errors import PenstockError
from penstock.sources.schedule import SECOND, Schedule
from tests.spark.support import alive, assert_gone, wait_until

PENSTOCK = [
    sys.executable,
    "-c",
    "import sys; from penstock.cli.main import main; sys.exit(main())",
]


SAME_IN_ALL_REPORTS = {"id": "query", "runId": "run", "numInputRows": 20}


def reading(**changes: Any) -> Reading:
    base: dict[str, Any] = {
        "elapsed": 3.0,
        "through": 0.25,
        "load": 5.0,
        "rate": 50_000.0,
        "arrived": 120_000,
        "admitted": 30_000,
        "shed": 80_000,
        "waiting": 10_000,
        "sic": 0.27,
        "batch_seconds": 0.9,
        "latency": 1.4,
    }
    return Reading(**(base | changes))


def recorder(width: int) -> Console:
    return Console(width=width, height=24, record=True, file=io.StringIO())


def commit(batch: int, first: int, stop: int, began: float, ended: float) -> Commit:
    return Commit(batch, first, stop, round(began * SECOND), round(ended * SECOND), 0)


class TestMeter:
    def test_a_commit_is_read_from_sparks_report(self) -> None:
        report = {
            **SAME_IN_ALL_REPORTS,
            "batchId": 4,
            "timestamp": "1970-01-01T00:00:10.250Z",
            "durationMs": {"triggerExecution": 1500, "addBatch": 1000},
            "sources": [
                {
                    "startOffset": {"start": 2.5, "offset": 70},
                    "endOffset": {"start": 2.5, "offset": 90},
                }
            ],
        }
        told = Commit.of(json.dumps(report))
        assert told == Commit(4, 70, 90, 10_250_000, 11_750_000, 2_500_000)
        assert (told.rows, told.seconds) == (20, 1.5)

    def test_the_first_batch_starts_at_nothing_and_an_idle_report_is_none(self) -> None:
        source = {"startOffset": None, "endOffset": {"start": 0.0, "offset": 9}}
        report = SAME_IN_ALL_REPORTS | {
            "batchId": 0,
            "timestamp": "1970-01-01T00:00:00.000Z",
            "sources": [source],
        }
        first = Commit.of(
            json.dumps(report | {"durationMs": {"triggerExecution": 1, "addBatch": 1}})
        )
        assert first is not None
        assert first.first == 0
        assert Commit.of(json.dumps(report | {"durationMs": {"latestOffset": 1}})) is None

    def test_latency_of_every_tuple_by_hand(self) -> None:
        """Ten tuples a second, all of the first second in a batch that ends at 2 s."""
        schedule = Schedule(0, 10.0)
        ages = [2.0 - (n + 1) / 10 for n in range(10)]
        told = latency([commit(0, 0, 10, 1.0, 2.0)], {}, schedule, 1 * SECOND)
        assert told.worst == pytest.approx(max(ages))
        assert told.p50 == pytest.approx(float(np.median(ages)), abs=0.06)
        assert told.p95 == pytest.approx(max(ages), abs=0.11)

    def test_what_waits_at_the_end_counts_with_its_age(self) -> None:
        told = latency([commit(0, 0, 10, 1.0, 1.1)], {}, Schedule(0, 10.0), 101 * SECOND)
        assert told.p50 == pytest.approx(50.0, abs=2.0)
        assert told.worst == pytest.approx(101.0 - 1.1)

    def test_what_was_shed_has_no_latency(self) -> None:
        slow, fast = commit(0, 0, 100, 10.0, 60.0), commit(1, 100, 200, 20.0, 20.5)
        told = latency([slow, fast], {0: 1, 1: 99}, Schedule(0, 10.0), 20 * SECOND)
        assert told.p95 < 15.0 < told.worst

    def test_no_tuples_no_latency(self) -> None:
        assert latency([], {}, Schedule(0, 10.0), 0) == Latency(0.0, 0.0, 0.0)

    def test_the_oldest_tuple(self) -> None:
        schedule = Schedule(0, 10.0)
        assert oldest(schedule, 10, 1 * SECOND) == 0.0
        assert oldest(schedule, 10, 3 * SECOND) == pytest.approx(1.9)

    def test_the_rate_of_the_fastest_batch(self) -> None:
        assert best_rate([commit(0, 0, 100, 0, 2), commit(1, 100, 200, 2, 3)]) == 100.0

    def test_the_rate_beyond_what_every_batch_costs(self) -> None:
        """A second for each batch, and a tenth of a second for 100 tuples."""
        small, large = commit(0, 0, 100, 0, 1.1), commit(1, 100, 2100, 2, 5.0)
        assert marginal_rate([small, large]) == pytest.approx(1000.0)
        assert marginal_rate([small, small]) == pytest.approx(3 * 100 / 1.1)


class TestTruth:
    @pytest.mark.parametrize(("first", "stop"), [(0, 0), (0, 7), (3, 4), (5, 9), (2, 40), (13, 14)])
    def test_any_range_against_counting_row_by_row(self, first: int, stop: int) -> None:
        keys, values = list("abacaba"), np.arange(7.0)
        pool = Pool(keys, values)
        count: dict[str, int] = defaultdict(int)
        total: dict[str, float] = defaultdict(float)
        for n in range(first, stop):
            count[keys[n % 7]] += 1
            total[keys[n % 7]] += values[n % 7]
        counts, sums = pool.between(first, stop)
        assert {key: counts[place] for key, place in pool.place.items()} == {
            key: count[key] for key in "abc"
        }
        assert {key: sums[place] for key, place in pool.place.items()} == {
            key: pytest.approx(total[key]) for key in "abc"
        }

    def test_the_pool_is_what_the_stream_repeats(self) -> None:
        pool = Pool.of_demo()
        counts, sums = pool.between(5, 5 + 131_072)
        assert counts.sum() == 131_072
        assert len(pool.place) > 4000
        assert (sums > 0).all()

    def test_errors_and_coverage_by_hand(self) -> None:
        """One window of ten tuples: 5 of a, mean 4; 3 of b, mean 8; 2 of c, which got no result."""
        pool = Pool(list("aaaaabbbcc"), np.array([4.0] * 5 + [8.0] * 3 + [1.0] * 2))
        results = {
            "start": np.array([0, 0]),
            "key": np.array(["a", "b"], dtype=object),
            "count": np.array([6, 3]),
            "count_low": np.array([4.0, 4.0]),
            "count_high": np.array([8.0, 8.0]),
            "mean": np.array([5.0, 8.0]),
            "mean_low": np.array([4.5, 8.0]),
            "mean_high": np.array([5.5, 8.0]),
            "sic": np.array([0.5, 0.5]),
            "tuples": np.array([20, 20]),
        }
        told = accuracy(results, Schedule(-1, 10.0), 1, pool)
        assert (told.windows, told.keys) == (1, 3)
        assert told.keys_missed == pytest.approx(1 / 3)
        assert told.count_error == pytest.approx((1 + 0 + 2) / 10)
        assert told.mean_error == pytest.approx((5 * 0.25 + 3 * 0.0) / 8)
        assert told.count_error_per_key == pytest.approx((0.2 + 0.0 + 1.0) / 3)
        assert told.mean_error_per_key == pytest.approx(0.125)
        assert (told.count_covered, told.mean_covered) == (0.5, 0.5)
        assert told.keys_with_enough == pytest.approx(2 / 3)
        assert told.sic == pytest.approx(0.4)

    def test_no_results_are_no_errors(self) -> None:
        names = ("count", "count_low", "count_high", "mean", "mean_low", "mean_high")
        empty = {name: np.zeros(0) for name in (*names, "start", "sic", "tuples")}
        told = accuracy(
            empty | {"key": np.zeros(0, dtype=object)}, Schedule(0, 1.0), 1, Pool([], np.zeros(0))
        )
        assert (told.windows, told.count_error, told.sic) == (0, 0.0, 0.0)


class TestWorkload:
    def test_the_load_follows_the_profile(self) -> None:
        load = Workload(1000.0, 40.0, 2, 3.0)
        assert load.window == 5
        assert [load.factor_at(at) for at in (-1.0, 0.0, 11.9, 12.1, 20.1)] == [
            *(CALM_FACTOR, CALM_FACTOR, CALM_FACTOR, BURST_FACTOR, CALM_FACTOR)
        ]
        second = load.schedule(0).offset_at(14 * SECOND) - load.schedule(0).offset_at(13 * SECOND)
        assert second == 1000 * BURST_FACTOR

    def test_a_job_that_copes_with_the_first_burst(self) -> None:
        load = Workload(1000.0, 40.0, 2, 3.0)
        assert load.copes(20.1, 2.0)
        assert not load.copes(20.1, 8.0)
        assert not load.copes(19.0, 2.0)
        assert str(load) == "1,000 tuples/s fit, bursts bring 5,000/s"

    def test_what_is_asked_of_a_slow_machine_is_what_it_can_hold(self) -> None:
        assert Machine(40_000.0, 0.2).latency == 3
        assert Machine(4_000.0, 1.1).latency == 5

    def test_windows_that_are_due(self) -> None:
        assert windows_due(12 * SECOND, 21 * SECOND, 5) == 2
        assert windows_due(12 * SECOND, 14 * SECOND, 5) == 0

    def test_runs_are_shorter_where_spark_was_slow(self) -> None:
        assert length(10.0) == LONGEST_RUN_SECONDS
        assert SHORTEST_RUN_SECONDS < length(75.0) < LONGEST_RUN_SECONDS
        assert length(DEMO_SECONDS) == SHORTEST_RUN_SECONDS


class TestView:
    def test_bars(self) -> None:
        assert plot([0.0, 1.0, 2.0, 4.0, None], 4.0, 2) == ["   █ ", "▁▄██ "]
        assert scale(32.4, 3) == ["  32 s ", "       ", "   0 s "]

    def test_the_highest_latency_of_each_column(self) -> None:
        rows = [reading(through=at, latency=at) for at in (0.1, 0.2, 0.6, 1.1)]
        assert latency_by_time(rows, 4) == [0.2, None, 0.6, 1.1]

    def test_a_line_says_it_all(self) -> None:
        assert line("with Penstock", reading()) == (
            "with Penstock     arriving 50,000/s  arrived 120,000  admitted 30,000  shed 80,000  "
            "waiting 10,000  SIC 0.27  batch 0.9 s  latency 1.4 s"
        )

    def test_plain_lines_come_once_a_second(self) -> None:
        console = recorder(60)
        with DemoLines(console, Clock()) as view:
            view.stage("starting", 1.0, 2.0)
            for run in ("plain", "gated"):
                for tenth in range(10, 30):
                    view.reading(run, reading(elapsed=tenth / 10))
        assert len(console.export_text().splitlines()) == 1 + 2 * 2

    @pytest.mark.parametrize("width", [80, 110, 200])
    def test_the_display_fits(self, width: int) -> None:
        console = recorder(width)
        view = DemoScreen(console, Clock())
        view.stage("with Penstock", 1.0, 2.0)
        view.reading("plain", reading(shed=0, sic=1.0, latency=31.0, through=0.9))
        view.reading("gated", reading())
        console.print(view.picture())
        drawn = console.export_text().splitlines()
        assert len(drawn) <= 24
        assert max(map(len, drawn)) <= width
        assert "31 s" in drawn[3]
        assert [text for text in drawn if "80,000" in text and "shed" in text]

    def test_progress_never_falls(self) -> None:
        clock = Clock()
        shares = [clock.share]
        for left in (10.0, 0.1, 100.0, 0.0):
            clock.stage(0.0, left)
            shares.append(clock.share)
        assert shares[0] == 0.0
        assert shares == sorted(shares)
        assert clock.share == pytest.approx(1.0, abs=0.1)


class TestSummary:
    @staticmethod
    def verdict() -> Verdict:
        exact = Accuracy(7, 100, 0.2, 0.05, 0.04, 0.5, 0.3, 0.95, 0.94, 0.4, 0.25)
        spread = Latency(1.2, 2.1, 3.0)
        return Verdict(1000, 300, 600, 100, True, True, [], 8, 0.4, spread, exact)

    def test_the_table_and_the_json_have_the_figures(self) -> None:
        verdicts = {"plain": self.verdict(), "gated": self.verdict()}
        load, console = Workload(5000.0, 40.0, 2, 3.0), recorder(100)
        console.print(table(verdicts))
        text = console.export_text()
        for figure in ("1.2 s", "2.1 s", "7 of 8", "0.25", "1,000", "600", "94.0%", "20.0%", "yes"):
            assert text.count(figure) == 2, figure
        told = as_json(verdicts, load, 123.0)
        assert json.loads(json.dumps(told))["gated"]["latency"]["p95"] == 2.1
        text = conclusion(verdicts, load, 123.0)
        assert "asked to hold 3 s" in text
        assert "took 123 s" in text


class TestOptions:
    def test_nonsense_is_refused_before_anything_starts(self, tmp_path: Path) -> None:
        with pytest.raises(PenstockError, match="--seconds must lie between 4 and 3600"):
            show(seconds=0.0)
        with pytest.raises(
            PenstockError, match=r"--json must be a file that can be written; got .*No such file"
        ):
            show(file=tmp_path / "no" / "figures.json")
        with pytest.raises(PenstockError, match=r"--plot must be an SVG or a PNG, .*'demo.txt'"):
            show(drawn=Path("demo.txt"))

    def test_the_picture_has_both_runs_the_bursts_and_what_was_asked_for(self) -> None:
        load = Workload(1000.0, 40.0, 2, 3.0)
        seen = {
            run: [reading(elapsed=float(second), latency=second * slope) for second in range(41)]
            for run, slope in (("plain", 0.7), ("gated", 0.05))
        }
        drawn = picture(seen, load)
        assert [line.label for line in drawn.lines] == ["without Penstock", "with Penstock"]
        assert [line.y[-1] for line in drawn.lines] == pytest.approx([28.0, 2.0])
        assert drawn.marks == [("asked for: 3 s", 3.0)]
        assert drawn.spans[0] == ("5 × what fits", 12.0, 20.0)
        assert all(load.factor_at(begin) > 1 for _, begin, _ in drawn.spans)

    def test_a_press_is_remembered_and_a_second_one_is_not_made_to_wait(self) -> None:
        interrupt = Interrupt()
        with interrupt.installed():
            interrupt.spark_started()
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                interrupt.pause(10.0)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a demo puts what it needs while it runs."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def left_behind(scratch: Path) -> list[Path]:
    return list(scratch.glob("penstock-demo-*"))


@pytest.mark.spark
@pytest.mark.long
def test_without_a_terminal_it_prints_lines_and_a_summary(tmp_path: Path, scratch: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    figures = here / "figures.json"
    drawn = here / "demo.svg"
    command = [*PENSTOCK, "demo", "--seconds", "4", "--json", str(figures), "--plot", str(drawn)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout)
    for text in ("] without Penstock  arriving", "] with Penstock     arriving", "latency, median"):
        assert text in done.stdout
    told = json.loads(figures.read_text())
    for run in ("plain", "gated"):
        assert told[run]["accounted"]
        assert told[run]["arrived"] == sum(
            told[run][name] for name in ("admitted", "shed", "waiting")
        )
    assert told["plain"]["accuracy"]["count_error"] == 0.0
    assert told["gated"]["ledger_balanced"]
    assert left_behind(scratch) == []
    assert sorted(path.name for path in here.iterdir()) == ["demo.svg", "figures.json"]
    text = drawn.read_text()
    for said in ("without Penstock", "time since the stream began (s)", "5 × what fits"):
        assert said in text


@pytest.mark.spark
@pytest.mark.alone
@pytest.mark.parametrize(
    ("stage", "number"), [("starting", signal.SIGTERM), ("measuring", signal.SIGINT)]
)
def test_ctrl_c_and_the_like_end_it_cleanly(
    tmp_path: Path, scratch: Path, stage: str, number: int
) -> None:
    """Pressed in a terminal, it reaches the whole process group: the JVM when it has just begun,
    and one in the middle of a batch.
    """

    def has_come_far_enough() -> bool:
        if stage == "starting":
            return alive(f"STARTED_IN={tmp_path}") > 1
        return any(scratch.glob("penstock-demo-*/calibration_0/offsets/0"))

    with subprocess.Popen(
        [*PENSTOCK, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "STARTED_IN": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert any(stage in line for line in iter(process.stdout.readline, "")), "it ended early"
        wait_until(has_come_far_enough)
        pressed = time.monotonic()
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, "")
    assert re.fullmatch(r"stopped after \d+ s; nothing is left running\n", out)
    assert time.monotonic() - pressed < 20.0  # on a busy machine; Spark must have started to stop
    assert_gone(f"STARTED_IN={tmp_path}")
    assert left_behind(scratch) == []
