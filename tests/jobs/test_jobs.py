"""Job files on Spark: what only Spark finds wrong, the examples, and the commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from scipy import stats

from penstock import arrow as pa
from penstock.errors import PenstockError
from penstock.jobs.check import check
from penstock.jobs.inputs import _replay, identity
from penstock.jobs.load import LoadedJob, load
from penstock.jobs.results import answer
from penstock.jobs.start import _gated, open_site, start
from penstock.sources.options import parse
from penstock.sources.schedule import Schedule
from penstock.spark.query import RESULT_METRICS
from penstock.sql.rewrite import Rewritten
from penstock.windows.concept import Concept
from tests.jobs.broken import BROKEN, GOOD, Broken
from tests.jobs.test_load import EXAMPLES, written
from tests.spark.support import assert_gone, wait_until

PENSTOCK = [
    sys.executable,
    "-c",
    "import sys; from penstock.cli.main import main; sys.exit(main())",
]
PAPERS = [path for path in EXAMPLES if path.stem != "five"]
"""Examples that are queries of the papers."""
QUERIES = [(path, name) for path in PAPERS for name in yaml.safe_load(path.read_text())["queries"]]


@pytest.mark.parametrize("broken", [b for b in BROKEN if b.spark], ids=lambda b: b.what)
def test_what_only_spark_knows_is_told_with_its_place(
    spark: SparkSession, broken: Broken, tmp_path: Path
) -> None:
    """Before anything starts; ``main`` makes it exit code 2, as for the others."""
    path = written(tmp_path, broken.text)
    with pytest.raises(PenstockError) as caught:
        check(spark, load(path))
    assert str(caught.value) == f"{path}{broken.message.format(dir=tmp_path)}"
    assert not spark.streams.active


def test_a_good_job_passes(spark: SparkSession, tmp_path: Path) -> None:
    schemas = check(spark, load(written(tmp_path, GOOD)))
    assert schemas["fares"].fieldNames() == ["start", "route", "fare"]


MANY_SOURCES = """\
sources:
  ticks: {format: rate, rate: 10}
  events:
    format: files
    path: events
    options: {type: json}
    arrival: timestamp_seconds(seconds)
    columns: {at: timestamp_seconds(seconds), shape: "upper(kind)"}
    time: at
    watermark: 5s
  kinds: {format: csv, path: kinds, schema: "kind STRING, name STRING", static: true}
queries:
  ticks: {sql: "SELECT count(*) AS c FROM ticks[Range 1 sec]", sink: {format: memory}}
  shapes:
    strata: {events: [kind, seconds % 2]}
    mode: update
    sql: |
      SELECT name, shape, sum(seconds) AS total FROM events JOIN kinds ON events.kind = kinds.kind
      GROUP BY name, shape
"""


def test_sources_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    """Rate, files whose columns are found out, columns behind the gate, a table to join with."""
    for name, text in (("events", '{"kind": "a", "seconds": 3}\n'), ("kinds", "a,apple\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text(text)
    loaded = load(written(tmp_path, MANY_SOURCES))
    schemas = check(spark, loaded)
    assert schemas["shapes"].simpleString() == "struct<name:string,shape:string,total:bigint>"
    site = open_site(spark, loaded)
    queries = start(spark, loaded, site, schemas, tmp_path / "checkpoints")
    try:
        queries["shapes"].processAllAvailable()
        assert queries["shapes"].exception() is None
        (entry,) = [q for q in site.report().to_dict()["queries"] if q["id"] == "shapes"]
        assert (entry["arrived"], entry["admitted"]) == (1, 1)
        assert entry["latency_ms"]["measured"]
    finally:
        site.stop()


def test_a_concept_reaches_the_gate(spark: SparkSession, tmp_path: Path) -> None:
    concept = "    concept: {window: 10s, time: _arrival, error: 5%, value: fare}"
    loaded = load(written(tmp_path, GOOD.replace("    floor: 0.1", concept)))
    check(spark, loaded)
    with open_site(spark, loaded) as site:
        _gated(spark, loaded, site, "fares", "rides")
        agreed = site.settings.concepts["fares"]
    assert isinstance(agreed, Concept)
    assert (agreed.length, agreed.bound, agreed.value) == (10.0, 0.05, "fare")


def test_a_job_can_only_watch(spark: SparkSession, tmp_path: Path) -> None:
    loaded = load(written(tmp_path, f"watch: true\n{GOOD}"))
    with open_site(spark, loaded) as site:
        assert site.report().watch
    with open_site(spark, load(written(tmp_path, GOOD))) as site:
        assert not site.report().watch


# --- examples -------------------------------------------------------------------------------------


def recorded(spark: SparkSession, loaded: LoadedJob, name: str, seconds: int) -> DataFrame:
    """The first seconds of a made-up source, as a table."""
    source = loaded.job.sources[name]
    settings = parse(_replay(source, None))
    rate = settings.rate or 0.0
    rows = round(rate * seconds)
    table = pa.Table.from_batches(list(settings.rows(0, rows)))
    arrivals = Schedule(0, rate).arrival_of(np.arange(rows))
    table = table.append_column("_arrival", pa.array(arrivals).cast(pa.timestamp("us", tz="UTC")))
    table = table.append_column("_offset", pa.array(np.arange(rows)))
    return spark.createDataFrame(table.to_pandas())


def views(
    loaded: LoadedJob, query: str, tables: dict[str, DataFrame], rate: float, draw: int = 0
) -> None:
    """A query's sources as its gate would leave them at this rate."""
    for name in loaded.queries[query].sources:
        tables[name].createOrReplaceTempView(f"`{name}`")
        who = identity(tables[name], loaded.job.sources[name])
        luck = sf.pmod(sf.xxhash64(sf.lit(name), sf.lit(draw), *who), sf.lit(10_000)) / 10_000
        admitted = tables[name].where(luck < rate)
        admitted.select(
            "*", sf.lit(1 / rate).alias("_weight"), sf.lit(0.01).alias("_sic")
        ).createOrReplaceTempView(f"`{query}:{name}`")


@pytest.mark.parametrize(("path", "query"), QUERIES, ids=[query for _, query in QUERIES])
def test_examples_give_what_plain_spark_gives_and_cover_the_truth(
    spark: SparkSession, path: Path, query: str
) -> None:
    """Row for row without shedding; at a rate of one half, 95 % intervals hold the truth in 93 %
    of cases, as far as chance allows.
    """
    loaded = load(path)
    rewritten = loaded.queries[query]
    tables = {
        name: recorded(spark, loaded, name, 16).cache() for name in loaded.queries[query].sources
    }
    views(loaded, query, tables, 1.0)
    plain = spark.sql(rewritten.plain)
    names = plain.columns
    keys = [name for name in names if name in ("start", "route")]
    truth = {tuple(row[key] for key in keys): row for row in plain.collect()}
    whole = {
        tuple(row[key] for key in keys): row
        for row in answer(spark, rewritten, plain.schema).collect()
    }
    assert whole.keys() == truth.keys()
    assert len(truth) >= 4
    for key, row in whole.items():
        assert row["_sic"] == 1.0
        for name in names:
            assert row[name] == (
                pytest.approx(truth[key][name], rel=1e-9)
                if isinstance(row[name], float)
                else truth[key][name]
            )
    hits: list[bool] = []
    for draw in range(3):
        views(loaded, query, tables, 0.5, draw)
        sampled = answer(spark, rewritten, plain.schema).collect()
        assert all(row["_sic"] == pytest.approx(0.5) for row in sampled)
        hits += covered(rewritten, keys, truth, sampled)
    if any(column.bounds for column in rewritten.columns):
        assert stats.binom.cdf(sum(hits), len(hits), 0.93) > 0.001, (sum(hits), len(hits))
    for frame in tables.values():
        frame.unpersist()


def covered(
    rewritten: Rewritten, keys: list[str], truth: dict[tuple[Any, ...], Row], sampled: list[Row]
) -> list[bool]:
    """For each interval, whether the truth is in it."""
    return [
        row[f"{column.name}_low"] - 1e-9
        <= truth[tuple(row[key] for key in keys)][column.name]
        <= row[f"{column.name}_high"] + 1e-9
        for row in sampled
        for column in rewritten.columns
        if column.bounds and row[f"{column.name}_low"] is not None
    ]


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_examples_run(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Live, into files: results come with a SIC, and the ledger balances."""
    text = path.read_text().replace("interval: 2s", "interval: 1s")
    text = text.replace("15 sec", "4 sec").replace("5 sec", "2 sec")
    sinks = {name: tmp_path / name for name in load(path).job.queries}
    for sink in sinks.values():
        files = f"sink: {{format: parquet, path: {sink}}}"
        text = text.replace("sink: {format: console}", files, 1)
    copy = tmp_path / path.name
    copy.write_text(text)
    loaded = load(copy)
    with open_site(spark, loaded) as site:
        queries = start(spark, loaded, site, check(spark, loaded), tmp_path / "checkpoints")
        wait_until(
            lambda: all(map(_answered, queries.values())) or any(map(_failed, queries.values())),
            seconds=120,
            what="every query to answer",
        )
    for name, query in queries.items():
        assert not _failed(query)
        rows = spark.read.parquet(str(sinks[name])).collect()
        assert rows
        assert all(0 < row["_sic"] <= 1 for row in rows)
    report = site.report().to_dict()
    assert report["ledger_balanced"]
    for entry in report["queries"]:
        assert entry["arrived"] == entry["admitted"] + entry["shed"] > 0


def _failed(query: StreamingQuery) -> bool:
    return not query.isActive and query.exception() is not None


def _answered(query: StreamingQuery) -> bool:
    told = (progress.observedMetrics.get(RESULT_METRICS) for progress in query.recentProgress)
    return any(metrics is not None and metrics["units"] for metrics in told)


# --- commands -------------------------------------------------------------------------------------

LIVE = """\
site: here
interval: 500ms
sources:
  rides: {format: replay, generator: rides, rate: 1k}
queries:
  trips:
    sql: SELECT window.start, count(*) AS trips FROM rides[Range 1 sec]
    sink: {format: console}
"""


@pytest.mark.spark
def test_penstock_run_reports_and_stops(tmp_path: Path) -> None:
    """As a user runs it: plain lines, a report, results on the console; then a signal ends it, sent
    to all of its processes, as ``timeout`` and service managers do.
    """
    job, report = tmp_path / "job.yaml", tmp_path / "report.json"
    job.write_text(LIVE)
    command = [*PENSTOCK, "run", str(job), "--report", str(report)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        deadline = time.monotonic() + 100
        for line in process.stdout:
            lines.append(line)
            if "SIC: trips" in line and any("trips|" in seen for seen in lines):
                os.killpg(process.pid, signal.SIGTERM)
                break
            assert time.monotonic() < deadline, "".join(lines)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, rest
    told = json.loads(report.read_text())
    assert told.keys() == {"queries", "site", "ledger_balanced", "watch"}
    (trips,) = told["queries"]
    assert trips.keys() == {
        "id", "arrived", "admitted", "shed", "lost_in_guards", "lost_late",
        "lost_in_windows", "sic", "sic_now", "gate_sic", "latency_ms", "batches",
        "backlog", "held_back_by", "let_in_per_second", "arriving_per_second",
        "drift", "would_shed", "would_latency_ms"
    }  # fmt: skip
    assert trips["latency_ms"].keys() == {"p50", "p95", "p99", "measured"}
    assert told["site"].keys() == {"capacity", "utilisation", "jain"}
    assert told["ledger_balanced"]
    assert trips["arrived"] == trips["admitted"] + trips["shed"] > 0
    assert "ledger balanced" in rest
    assert not list(tmp_path.glob("penstock-run-*"))
    assert_gone(f"TMPDIR={tmp_path}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", "0"], "--seconds must be above 0, such as 30; got 0"),
        (
            ["--report", "/nowhere/at/all.json"],
            "--report must be a file that can be written; got '/nowhere/at/all.json'",
        ),
    ],
)
def test_bad_options(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.cli.main import main

    job = tmp_path / "job.yaml"
    job.write_text(LIVE)
    assert main(["run", str(job), *options]) == 2
    assert message in capsys.readouterr().err
