"""``penstock up`` for real: results over all sites, a whole report, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMAND = "penstock up --sites 3 --seconds 120 --report report.json"
"""As README and guide print it; here it runs until it has results, however long that takes."""
LONGEST_START_SECONDS = 300
LONGEST_END_SECONDS = 90
LOOKS = 8
"""One every two seconds: in so many every site has told the others of its queries."""
SITES = ["kyoto", "oslo", "rome"]


@dataclass
class Up:
    """Is a running ``penstock up`` whose processes, and theirs, can be found by a mark."""

    process: subprocess.Popen[str]
    log: Path
    mark: str

    def said(self) -> str:
        return self.log.read_text()

    def left(self) -> list[str]:
        """The processes that have the mark, with what they were started as."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                marked = self.mark.encode() in (process / "environ").read_bytes()
                command = (process / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if process.name.isdigit() and marked and command:
                found.append(f"{process.name}: {command[:200]}")
        return found

    def wait_until_said(self, pattern: str, times: int = 1) -> None:
        deadline = time.monotonic() + LONGEST_START_SECONDS
        while len(re.findall(pattern, self.said())) < times:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def wait_until_nothing_is_left(self) -> None:
        deadline = time.monotonic() + LONGEST_END_SECONDS
        while self.left():
            assert time.monotonic() < deadline, self.left()
            time.sleep(0.5)


@pytest.fixture
def up(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Up]:
    mark, log = f"penstock-test-{uuid.uuid4()}", tmp_path / "up.log"
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PENSTOCK_TEST_MARK": mark, "TMPDIR": str(tmp_path / "tmp")}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *request.param.split()],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
        )
    running = Up(process, log, mark)
    yield running
    if process.poll() is None:
        process.terminate()
        process.wait(LONGEST_END_SECONDS)
    running.wait_until_nothing_is_left()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(LONGEST_START_SECONDS + 2 * LONGEST_END_SECONDS)
@pytest.mark.parametrize("up", [COMMAND.replace(" --seconds 120", "")], indirect=True)
def test_a_federation_has_results_and_a_report_and_leaves_nothing_behind(
    up: Up, tmp_path: Path
) -> None:
    up.wait_until_said("avg-all has its first results")
    up.wait_until_said(r"SIC: .*avg-all \d", LOOKS)
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(LONGEST_END_SECONDS) == 128 + signal.SIGINT, up.said()
    assert up.left() == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert re.search(r"^avg-all: first results after \d+ s$", up.said(), re.M), up.said()
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report) == {"sites", "queries", "jain", "mean_sic", "messages", "ledger_balanced"}
    assert [site["id"] for site in report["sites"]] == SITES
    for site in report["sites"]:
        assert set(site) == {
            *("id", "capacity", "utilisation", "shed", "latency_ms", "fragments"),
        }
        assert site["fragments"] >= 1
    queries = {query["id"]: query for query in report["queries"]}
    assert {"avg-all", *(f"{site}-own" for site in SITES)} <= set(queries)
    assert queries["avg-all"]["sites"] == SITES
    assert queries["avg-all"]["rows"] > 0
    assert queries["avg-all"]["sic"] > 0
    assert 0 < report["mean_sic"] <= 1
    assert 0 < report["jain"] <= 1
    assert report["messages"]["update_sic"]["count"] > 0
    assert 0 < report["messages"]["update_sic"]["bytes_max"] < 300
    assert report["messages"]["refused"] == {}
    assert report["ledger_balanced"]


@pytest.mark.spark
@pytest.mark.timeout(LONGEST_START_SECONDS + 2 * LONGEST_END_SECONDS)
@pytest.mark.parametrize("up", ["penstock up --sites 2 --seconds 1"], indirect=True)
def test_a_federation_ends_when_its_time_is_over(up: Up, tmp_path: Path) -> None:
    assert up.process.wait(LONGEST_START_SECONDS) == 0, up.said()
    assert "oslo is up" in up.said()
    assert up.left() == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.spark
@pytest.mark.timeout(LONGEST_START_SECONDS + 2 * LONGEST_END_SECONDS)
@pytest.mark.parametrize("up", ["penstock up --sites 2"], indirect=True)
def test_a_federation_ends_when_it_is_terminated(up: Up, tmp_path: Path) -> None:
    up.wait_until_said("starting a Spark each")
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(LONGEST_END_SECONDS) == 128 + signal.SIGTERM, up.said()
    assert up.left() == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.spark
@pytest.mark.timeout(LONGEST_START_SECONDS + 2 * LONGEST_END_SECONDS)
@pytest.mark.parametrize("up", ["penstock up --sites 2"], indirect=True)
def test_no_process_outlives_a_federation_that_is_killed(up: Up) -> None:
    up.wait_until_said("rome is up")
    up.process.kill()
    up.process.wait()
    up.wait_until_nothing_is_left()
