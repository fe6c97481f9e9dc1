"""Law 1 after a crash: a driver killed in mid-batch, and between a commit and its ledger entry."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import Site
from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.spark.gate.wire import ALWAYS
from penstock.spark.record.ledger import Entry, Ledger
from penstock.spark.record.past_batches import recall_past
from penstock.spark.record.recount import BatchPlan
from penstock.spark.record.saved_state import unsealed
from tests.spark.crash_job import run
from tests.spark.support import file_stream, wait_until, write_batches

HERE = Path(__file__).parent


@contextmanager
def life(folder: Path, *how: str) -> Iterator[subprocess.Popen[bytes]]:
    """One life of the job, in a process group of its own, which does not outlive the test."""
    root = HERE.parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    environment["PYSPARK_PYTHON"] = sys.executable
    command = [sys.executable, str(HERE / "crash_job.py"), str(folder), *how]
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def ledger(folder: Path) -> Ledger:
    """A copy, as reading may mend the file."""
    copy = folder / "copy.jsonl"
    path = folder / "site" / "ledger.jsonl"
    copy.write_bytes(path.read_bytes() if path.exists() else b"")
    return Ledger(copy)


def entries(folder: Path) -> dict[int, Entry]:
    return {entry.batch: entry for entry in ledger(folder)}


def newest(folder: Path, log: str) -> int:
    place = folder / "checkpoint" / log
    names = [path.name for path in place.iterdir()] if place.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def planned(folder: Path) -> BatchPlan:
    (path,) = (folder / "site").glob("plan-*.pickle")
    name, plan = pickle.loads(unsealed(path.read_bytes()))
    assert name == "windows"
    assert isinstance(plan, BatchPlan)
    return plan


def offset(folder: Path, batch: int) -> int:
    """How far the source was at the end of a batch, by Spark's own log."""
    line = (folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[2]
    logged: dict[str, Any] = json.loads(line)
    return int(logged["offset"])


class Miser(Controller):
    """Sheds without need, in every stratum otherwise."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        rates = np.linspace(0.2, 0.6, len(plan.strata))
        return state, replace(plan, rates=rates, default_rate=0.4)


@pytest.mark.parametrize("batches", [1, 4])
def test_a_lost_entry_is_counted_again(spark: SparkSession, tmp_path: Path, batches: int) -> None:
    """Two gated sources and one that is not, in an order of their own."""
    letters = {"k": ["a", "b", "b", "c"] * 500}
    folders = [write_batches(tmp_path / name, [letters] * batches) for name in "xyz"]
    path = tmp_path / "site" / "ledger.jsonl"

    def live() -> Ledger:
        with Site(spark, interval="100ms", directory=tmp_path / "site", controller=Miser) as site:
            x, plain, z = (file_stream(spark, folder) for folder in folders)
            late = site.gate(z, query="q", source="z", strata="k", id="n")
            early = site.gate(x, query="q", source="x", id="n")
            whole = early.select("n").union(plain.select("n")).union(late.select("n"))
            query = site.start(
                whole.writeStream.format("noop"), name="q", checkpoint=tmp_path / "checkpoint"
            )
            query.processAllAvailable()
        return site.ledger

    before = list(live())
    assert len(before) == 2 * batches
    assert all(entry.shed > 500 for entry in before)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if f'"batch": {batches - 1},' not in line))
    assert len(list(Ledger(path))) == 2 * batches - 2
    after = live()
    assert sorted(map(repr, after)) == sorted(map(repr, before))
    assert after.balanced
    (query,) = {entry.query for entry in after}
    past = recall_past(tmp_path / "site", query)
    assert list(past) == list(range(batches)), "what it takes to settle it is there, too"
    assert all(its.plans.keys() == {0, 1} for its in past.values())
    assert [its.timed for its in past.values()] == [True] * (batches - 1) + [False]

    # where the plan is gone as well, the batch stays missing, and the ledger says so
    path.write_text(lines[0])
    for plan in (tmp_path / "site").glob("plan-*.pickle"):
        plan.unlink()
    assert live().lacks("q", before[0].query, batches - 1)


@pytest.mark.long
def test_every_tuple_is_accounted_for_after_two_crashes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Law 1, in three lives of one job: the second repeats a batch, the third counts one again.

    ``writer.start()`` starts the second life, and ``site.start(writer)`` the others.
    """
    with life(tmp_path) as process:

        def is_shedding_in_mid_batch() -> bool:
            assert process.poll() is None, (tmp_path / "log.txt").read_text()[-3000:]
            running = newest(tmp_path, "offsets")
            if running < 2 or running == newest(tmp_path, "commits"):
                return False
            plan = planned(tmp_path)
            return plan.batch == running and int(plan.gates[0].shipment.thresholds.min()) < ALWAYS

        wait_until(is_shedding_in_mid_batch, 90, "a batch that sheds")
        os.killpg(process.pid, signal.SIGKILL)
    interrupted, plan = newest(tmp_path, "offsets"), planned(tmp_path)
    assert newest(tmp_path, "commits") == interrupted - 1
    assert interrupted not in entries(tmp_path)

    with life(tmp_path, "--own", "--die") as process:
        assert process.wait(120) == -signal.SIGKILL, (tmp_path / "log.txt").read_text()[-3000:]
    again = entries(tmp_path)[interrupted]
    assert again.version == plan.gates[0].shipment.version  # decided as it was before
    assert again.shed > 0
    assert again.arrived == offset(tmp_path, interrupted) - offset(tmp_path, interrupted - 1)
    lost, witness = newest(tmp_path, "commits"), (tmp_path / "witness.json").read_text()
    assert lost not in entries(tmp_path)
    assert planned(tmp_path).batch == lost

    run(spark, tmp_path, stop=True)
    found = entries(tmp_path)
    assert found[lost] == Entry(**json.loads(witness))  # counted again, to the tuple
    assert found[lost + 1].shed > 0  # the plan was in force at once
    assert not (tmp_path / "checkpoint.recount").exists()

    last = newest(tmp_path, "commits")
    assert found.keys() == set(range(last + 1))
    assert ledger(tmp_path).balanced
    assert ledger(tmp_path).total()[0] == offset(tmp_path, last)
    for batch in range(1, last + 1):
        assert found[batch].arrived == offset(tmp_path, batch) - offset(tmp_path, batch - 1)

    rows = spark.read.parquet(str(tmp_path / "out"))
    once = rows.groupBy("window", "key").agg(sf.count("*").alias("times"))
    assert once.where("times <> 1").count() == 0
    assert rows.select("window").distinct().count() > 5
