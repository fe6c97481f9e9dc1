"""What a Python worker loads in order to run a guarded task, or to read a ``replay`` source.

Arrow itself loads pandas, where it is installed, when it makes an array of Python values, or a
Python value of a timestamp. A guard whose answers are floats, and whose inputs have no timestamp,
does without that; a replayed stream does not, so there the test looks before a worker makes its
first array.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.sources.replay import replay
from penstock.spark.site import Site
from tests.spark.support import file_stream, wait_until, write_batches

HEAVY = ("pandas", "penstock.spark", "penstock.lab", "penstock.policy", "penstock.sql")
"""None of these may be loaded in a worker. Spark's own worker loads PyArrow."""
EXECUTOR_SIDE = ("penstock.guard.task", "penstock.sources.replay")


def heavy(modules: list[str]) -> list[str]:
    return [m for m in modules if f"{m}.".startswith(tuple(f"{name}." for name in HEAVY))]


@pytest.mark.parametrize("module", EXECUTOR_SIDE)
def test_executor_side_modules_load_little(module: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(told.stdout)
    assert module in modules
    assert heavy(modules) == []
    assert "pyarrow" not in modules


@pytest.fixture
def fresh_workers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session whose next queries get Python workers of their own, since Spark uses a worker again
    only for functions with the same environment."""
    monkeypatch.setitem(spark.sparkContext.environment, "PENSTOCK_TEST_WORKERS", uuid4().hex)
    return spark


def test_a_guarded_task_loads_little(fresh_workers: SparkSession, tmp_path: Path) -> None:
    """In a first batch, and in a second, of which some rows are shed."""
    names, batches = HEAVY, [{"kind": ["a"] * 4}] * 2

    def loaded(row: Mapping[str, Any]) -> float:
        """Fails where something heavy is loaded. Pickled by value, or it would load this file."""
        found = [m for m in sys.modules if f"{m}.".startswith(tuple(f"{n}." for n in names))]
        assert not found, f"row {row['n']}: {sorted(found)}"
        assert "penstock.guard.task" in sys.modules
        return 1.0

    long_ago = sf.when(sf.col("n") % 3 == 0, sf.lit("2001-01-01").cast("timestamp"))
    stream = file_stream(fresh_workers, write_batches(tmp_path, batches)).withColumn("at", long_ago)
    with Site(fresh_workers, interval="200ms") as site:
        guarded = site.guard(stream, loaded, key="kind", wait="1h", arrival="at", inputs=["n"])
        query = guarded.writeStream.format("noop").trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        (report,) = site.report().guards
    assert report["kept"] >= 4
    assert report["shed"] >= 1


def test_reading_a_replay_source_loads_little(fresh_workers: SparkSession) -> None:
    stream = replay(
        fresh_workers,
        generator="tests.sources.loaded_modules:LoadedModules",
        rate=1000,
        maxRowsPerTrigger=1,
        partitions=1,
    )
    query = stream.writeStream.format("memory").queryName("replay_imports").start()
    try:
        wait_until(lambda: fresh_workers.table("replay_imports").first())
    finally:
        query.stop()
    row = fresh_workers.table("replay_imports").orderBy("_offset").first()
    assert row is not None
    modules = row["modules"].split()
    assert "penstock.sources.replay" in modules
    assert heavy(modules) == []
