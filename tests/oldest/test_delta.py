"""Delta as a source and as a sink, on the Spark that it supports; ``make oldest`` runs this."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock import Site
from tests.oldest.delta_job import TABLE, run
from tests.spark.clusters.features import BEGIN_SECONDS, LETTERS, ByName, account
from tests.spark.support import is_admitted, write_batches

ROOT = Path(__file__).parents[2]
LONGEST_LIFE_SECONDS = 200
BATCHES, ROWS = 4, 400


def timed(folder: Path) -> None:
    """Four batches of readings; windows go on from batch to batch."""
    moments = [datetime.fromtimestamp(BEGIN_SECONDS + n * 0.01, UTC) for n in range(BATCHES * ROWS)]
    parts = [slice(first, first + ROWS) for first in range(0, BATCHES * ROWS, ROWS)]
    values = [float(n * 7919 % 1000) for n in range(BATCHES * ROWS)]
    write_batches(
        folder, [{"at": moments[p], "x": values[p], "k": LETTERS * (ROWS // 4)} for p in parts]
    )


def as_table(spark: SparkSession, folder: Path) -> str:
    """The same as a Delta table, with a commit for each batch."""
    timed(folder / "in")
    for file in sorted((folder / "in").iterdir()):
        spark.read.parquet(str(file)).coalesce(1).write.format("delta").mode("append").save(
            str(folder / "source")
        )
    return str(folder / "source")


def stream(spark: SparkSession, table: str) -> DataFrame:
    return spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(table)


def test_a_gate_on_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    """What it admits is a function of ``id`` alone; what waits, the table does not tell."""
    table = as_table(spark, tmp_path)
    with Site(spark, interval="100ms", directory=tmp_path / "site", controller=ByName) as site:
        gated = site.gate(stream(spark, table), query="q", id="n")
        writer = gated.select("n", "_weight").writeStream.format("delta")
        writer = writer.option("path", str(tmp_path / "out"))
        query = site.start(writer, checkpoint=tmp_path / "checkpoint")
        query.processAllAvailable()
        (report,) = site.report().queries
    assert [row[:2] for row in account(site)] == [[batch, ROWS] for batch in range(BATCHES)]
    assert site.ledger.balanced
    assert report.backlog is None
    assert report.arrived == BATCHES * ROWS
    rows = spark.read.format("delta").load(str(tmp_path / "out")).collect()
    wanted = [n for n in range(BATCHES * ROWS) if is_admitted(n, 0.4, "source")]
    assert sorted(row["n"] for row in rows) == wanted
    assert {round(row["_weight"], 9) for row in rows} == {2.5}


def test_a_merge_in_update_mode_doubles_no_window_after_a_crash(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed behind a MERGE, before Spark commits the batch; beside it a run without a crash."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for folder in (killed, whole):
        timed(folder / "in")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, "-m", "tests.oldest.delta_job", str(killed), "--die"]
    life = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, timeout=LONGEST_LIFE_SECONDS
    )
    assert life.returncode == -signal.SIGKILL, life.stderr[-3000:]
    assert not (killed / "checkpoint" / "commits" / "1").exists()
    sites = {folder: run(spark, folder) for folder in (killed, whole)}
    tables = {
        folder: sorted(spark.sql(f"SELECT * FROM {TABLE.format(folder / 'table')}").collect())
        for folder in sites
    }
    assert tables[killed] == tables[whole]
    assert len(tables[killed]) == len({(row.start, row.k) for row in tables[killed]}) == 6
    assert account(sites[killed]) == account(sites[whole])
    assert sites[killed].ledger.balanced
    shutil.rmtree(killed / "table")
