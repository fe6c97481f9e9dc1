"""A job that sheds some of its batches, and the same without shedding, for tests of settling."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from penstock.cli.settle_runs import SettleOptions, settle_query
from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.jobs.check import check
from penstock.jobs.inputs import located, site_directory
from penstock.jobs.load import load
from penstock.jobs.start import start
from penstock.settle.past_stream import Budget
from penstock.spark.site import Site

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")
BATCHES = 7
ROWS = 400
SECONDS = 2
"""Of event time in a batch; its rows are out of order by as much again."""
BEGIN = 1_700_000_000
SHEDDING = range(1, 4)
"""The batches that shed."""


@dataclass(frozen=True)
class Sheds(Controller):
    """Sheds some batches, each stratum at a rate of its own."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        if plan.version - 1 not in SHEDDING:
            return state, plan
        rates = np.linspace(0.4, 0.7, len(plan.strata)) - 0.05 * plan.version
        return state, replace(plan, rates=rates, default_rate=0.4)


QUERY = """\
queries:
  fares:
    strata: route
    bounds: true
    sql: |
      SELECT window.start AS begins, ride.route, avg(ride.fare) AS fare, count(*) AS rides,
        max(ride.fare) AS most, percentile(ride.fare, 0.5) AS middle
      FROM rides GROUP BY window(at, '4 seconds', '2 seconds'), ride.route
    sink: {format: parquet, path: out}
"""
FILES = """\
  rides:
    format: files
    path: ../in
    options: {maxFilesPerTrigger: 1}
    time: at
    watermark: 4s
    columns: {ride: "named_struct('route', route, 'fare', quarters / 4)"}
"""


def rows_of(batch: int) -> dict[str, list[Any]]:
    """Rows whose sums are exact in whatever order they are added."""
    draw = np.random.default_rng(batch)
    moments = BEGIN + batch * SECONDS + draw.uniform(0, 2 * SECONDS, ROWS)
    micros = np.floor(moments * 1e6).astype(np.int64)
    return {
        "at": micros.tolist(),
        "route": [f"r{n}" for n in draw.integers(0, 5, ROWS)],
        "quarters": draw.integers(0, 1000, ROWS).tolist(),
    }


def write_files(folder: Path) -> None:
    """A file a batch; the last one is far ahead, so that all windows before it are over."""
    folder.mkdir(parents=True)
    last = {"at": [(BEGIN + 600) * 1_000_000], "route": ["end"], "quarters": [4]}
    for batch in range(BATCHES + 1):
        rows = rows_of(batch) if batch < BATCHES else last
        at = pa.array(rows["at"]).cast(pa.timestamp("us", tz="UTC"))
        path = folder / f"{batch:03d}.parquet"
        pq.write_table(pa.table({**rows, "at": at}), path)
        os.utime(path, (BEGIN + batch,) * 2)  # Spark takes files by age


def written_job(folder: Path, sources: str, query: str = QUERY, head: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.yaml"
    text = "interval: 100ms\nlatency: 1h\ncheckpoint: state\n"
    path.write_text(f"{text}{head}sources:\n{sources}{query}")
    return path


def run_job(
    spark: SparkSession, path: Path, controller: Callable[..., Controller] = Controller
) -> Site:
    """Runs a job over all that there is."""
    loaded = load(path)
    schemas = check(spark, loaded)
    kept = Path(located("state", loaded.directory))
    directory = site_directory(loaded)
    with Site(
        spark,
        interval=loaded.job.interval,
        latency=loaded.job.latency,
        directory=directory,
        controller=controller,
        rehearse=False,
        settle_within=loaded.job.settle_within,
    ) as site:
        for query in start(spark, loaded, site, schemas, kept).values():
            query.processAllAvailable()
            assert query.exception() is None
    return site


def settle_job(
    spark: SparkSession, path: Path, budget: Budget | None = None, **wanted: Any
) -> dict[str, Any]:
    """Settles the only query of a job, as the command does."""
    loaded = load(path)
    schemas = check(spark, loaded)
    options = SettleOptions(**wanted)
    return settle_query(spark, loaded, schemas, "fares", options, budget or Budget())


def counted(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """The rows of a frame, each as often as it is there."""
    columns = sorted(frame.columns)
    return Counter(tuple(row) for row in frame.select(*columns).collect())
