"""What is tried on each kind of cluster: what Penstock does, as small jobs with one right answer.

Each is a function of a session and of a place, and answers what can be compared: its rows and its
account on a cluster must be those of one machine. ``Place.shared`` is what all machines see;
``Place.own`` is the driver's own disk, which no executor reaches (see ``program``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock import Site, replay
from penstock import functions as pf
from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.errors import PenstockError
from penstock.federation.query_file import FederatedQuery
from penstock.jobs.check import check
from penstock.jobs.load import load
from penstock.jobs.start import open_site, start
from penstock.spark.engine import Engine
from penstock.spark.rehearsal import Rehearsal
from penstock.spark.shared_places import check_shared
from penstock.spark.window_processor import process_windows
from tests.federation.hosts import hosts
from tests.federation.machines import COLUMNS, readings
from tests.spark.support import file_stream, wait_until, write_batches

RATES = {"a": 0.2, "b": 0.5, "c": 0.9}
LETTERS = ["a", "b", "b", "c"]
BEGIN_SECONDS = 1_700_000_000
LONGEST_HOLD_SECONDS = 120.0


@dataclass(frozen=True)
class Place:
    """Where a feature may write."""

    shared: Path
    own: Path


class ByName(Controller):
    """Sheds without need, by the name of a stratum, so that every machine decides alike."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        rates = np.array([RATES.get(stratum.group, 0.4) for stratum in plan.strata])
        return state, replace(plan, rates=rates, default_rate=0.4)


def account(site: Site) -> list[list[object]]:
    """The ledger, without the names and versions that differ from session to session."""
    return sorted([e.batch, e.arrived, e.admitted, e.shed] for e in site.ledger)


def told(rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Rows as JSON gives them back, in an order of their own."""
    plain = (str, int, float, bool, type(None))
    return sorted([v if isinstance(v, plain) else str(v) for v in row] for row in rows)


def done(query: StreamingQuery) -> None:
    query.processAllAvailable()
    assert query.exception() is None, query.exception()


def lettered(spark: SparkSession, place: Place, batches: int = 3) -> DataFrame:
    """Some batches of 400 rows, each in two partitions, for two executors."""
    folder = place.shared / "in"
    if not folder.exists():
        write_batches(folder, [{"k": LETTERS * 100}] * batches)
    return file_stream(spark, str(folder)).repartition(2)


def rehearsed(spark: SparkSession, place: Place) -> object:
    """The first query is tried before it begins, with state, and leaves nothing behind."""
    tried: list[str] = []
    wait = Rehearsal._wait

    def noted(self: Rehearsal, query: StreamingQuery, began: float) -> None:
        wait(self, query, began)
        tried.append(str(query.name))
        assert query.exception() is None, query.exception()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rehearsal, "_wait", noted)
        with Site(spark, interval="300ms", latency=60, directory=place.own / "first") as site:
            raw = replay(spark, generator="readings", rate=1000, keys=3)
            counted = site.gate(raw, query="q").groupBy("key").agg(pf.count("*").alias("n"))
            writer = counted.writeStream.format("noop").outputMode("complete")
            query = site.start(writer, checkpoint=place.shared / "first")
            wait_until(lambda: query.exception() or site.report().queries)
            query.stop()
            rows = sum(progress.numInputRows for progress in query.recentProgress)
            exact = site.report()["q"].arrived == rows > 0
    left = [path.name for path in place.shared.iterdir() if path.name != "first"]
    assert Engine(spark).on_one_machine or len(tried) == 1
    return {"exact": exact and site.ledger.balanced, "left": left}


def gates(spark: SparkSession, place: Place) -> object:
    """A gate that sheds: which tuples pass, and the ledger, also of a batch counted again."""
    found: dict[str, object] = {}
    for life in ("first", "counted again"):
        with Site(spark, interval="100ms", directory=place.own / "site", controller=ByName) as site:
            gated = site.gate(lettered(spark, place), query="q", strata="k", id="n")
            writer = gated.select("n", "k", "_weight").writeStream.format("parquet")
            writer = writer.option("path", str(place.shared / "out"))
            done(site.start(writer, checkpoint=place.shared / "checkpoint"))
        assert site.ledger.balanced
        found[life] = account(site)
        ledger = place.own / "site" / "ledger.jsonl"
        lines = ledger.read_text().splitlines(keepends=True)
        ledger.write_text("".join(line for line in lines if '"batch": 2,' not in line))
    assert found["first"] == found["counted again"]
    found["rows"] = told(spark.read.parquet(str(place.shared / "out")).collect())
    return found


def guards(spark: SparkSession, place: Place) -> object:
    """A function on each tuple, some of which fail; and one that is too slow for all."""

    def halved(row: Mapping[str, Any]) -> float:
        return float(1.0 / (row["n"] % 50))

    def slow(row: Mapping[str, Any]) -> float:
        time.sleep(0.01)
        return float(row["n"])

    with Site(spark, interval="200ms", latency=60, directory=place.own / "site") as site:
        gated = site.gate(lettered(spark, place), query="q", strata="k", id="n")
        guarded = site.guard(gated, halved, key="k", wait="1h", inputs=["n"], on_error="skip")
        writer = guarded.select("n", "result").writeStream.format("parquet")
        writer = writer.option("path", str(place.shared / "out"))
        done(site.start(writer, name="all", checkpoint=place.shared / "checkpoint"))
        hurried = site.gate(lettered(spark, place), query="p", strata="k", id="n")
        some = site.guard(hurried, slow, key="k", wait="200ms").select("n").writeStream
        some = some.format("parquet").option("path", str(place.shared / "some"))
        done(site.start(some, name="some", checkpoint=place.shared / "checkpoint-some"))
        calm, busy = site.report().guards
    kept = spark.read.parquet(str(place.shared / "some")).count()
    assert busy["arrived"] == 1200
    assert busy["kept"] == kept == 1200 - busy["shed"] < 1200, busy
    counts = {name: calm[name] for name in ("arrived", "kept", "shed", "failed")}
    return {"rows": told(spark.read.parquet(str(place.shared / "out")).collect()), **counts}


def windows(spark: SparkSession, place: Place, held: Path | None = None) -> object:
    """A gate, a guard behind it, and ``process_windows`` behind that, with state.

    With ``held`` the function that gets a window says there which process it runs in, and waits
    until that has been killed.
    """

    def doubled(row: Mapping[str, Any]) -> float:
        return 2.0 * float(row["x"])

    def middle(rows: Any) -> dict[str, float]:
        if held is not None and not (held / "gone").exists():
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            with suppress(FileExistsError), (held / "reached").open("x") as file:
                file.write(daemon.rpartition(")")[2].split()[1])
            end = time.monotonic() + LONGEST_HOLD_SECONDS
            while not (held / "gone").exists() and time.monotonic() < end:
                time.sleep(0.05)
        return {
            "middle": float(rows["result"].median()),
            "standing": round(float(rows["_weight"].sum()), 6),  # in whatever order
        }

    folder = place.shared / "in"
    moments = [datetime.fromtimestamp(BEGIN_SECONDS + n / 20, UTC) for n in range(1600)]
    numbers = [float(n * 7919 % 1000) for n in range(1600)]
    parts = [slice(start, start + 400) for start in range(0, 1600, 400)]
    write_batches(folder, [{"at": moments[p], "x": numbers[p], "k": LETTERS * 100} for p in parts])
    with Site(
        spark, interval="200ms", latency=60, directory=place.own / "site", controller=ByName
    ) as site:
        stream = file_stream(spark, str(folder)).repartition(2, "n")
        gated = site.gate(stream, query="q", strata="k", id="n")
        guarded = site.guard(gated, doubled, key="k", wait="1h", inputs=["x"])
        out = process_windows(
            guarded.withWatermark("at", "0 seconds"),
            middle,
            "middle double, standing double",
            time="at",
            groups="k",
            window="20s",
            shards=2,
        )
        writer = out.drop("millis").writeStream.format("parquet")
        writer = writer.option("path", str(place.shared / "out"))
        done(site.start(writer, checkpoint=place.shared / "checkpoint"))
        (guard,) = site.report().guards
        counts = {name: guard[name] for name in ("arrived", "kept", "shed", "failed")}
    assert site.ledger.balanced
    ledger = account(site)
    rows = told(spark.read.parquet(str(place.shared / "out")).collect())
    return {"rows": rows, "ledger": ledger, **counts}


JOB = """\
site: rome
interval: 300ms
latency: 60s
checkpoint: file://{shared}/checkpoint
directory: ledger
sources:
  rides: {{format: files, path: {shared}/in, time: at, watermark: 0s, id: n,
          options: {{maxFilesPerTrigger: 1}}}}
  names: {{format: csv, path: {shared}/names, schema: "k STRING, name STRING", static: true}}
queries:
  by-letter:
    strata: k
    bounds: true
    one_to_one: true
    sql: |
      SELECT window.start, name, count(*) AS n, avg(x) AS x FROM rides JOIN names
      ON rides.k = names.k GROUP BY window(at, '10 seconds'), name
    sink: {{format: parquet, path: {shared}/out}}
"""


def jobs(spark: SparkSession, place: Place) -> object:
    """A job file on the driver's disk; what it reads and writes is on the shared one."""
    moments = [datetime.fromtimestamp(BEGIN_SECONDS + n / 20, UTC) for n in range(1200)]
    parts = [slice(start, start + 400) for start in range(0, 1200, 400)]
    numbers = [float(n % 17) for n in range(1200)]
    write_batches(
        place.shared / "in",
        [{"at": moments[p], "x": numbers[p], "k": LETTERS * 100} for p in parts],
    )
    (place.shared / "names").mkdir()
    (place.shared / "names" / "1.csv").write_text("a,apple\nb,bread\nc,cheese\n")
    path, text = place.own / "job.yaml", JOB.format(shared=place.shared)
    if not Engine(spark).on_one_machine:
        path.write_text(text.replace(f"checkpoint: file://{place.shared}/checkpoint\n", ""))
        refused("'checkpoint' is missing", lambda: check(spark, load(path)))
    path.write_text(text)
    loaded = load(path)
    schemas = check(spark, loaded)
    site = open_site(spark, loaded)
    try:
        for query in start(spark, loaded, site, schemas, place.own).values():
            done(query)
    finally:
        site.stop()
    assert site.ledger.balanced
    rows = spark.read.parquet(str(place.shared / "out")).collect()
    return {"rows": told(rows), "ledger": account(site)}


def federations(spark: SparkSession, place: Place) -> object:
    """Two sites, with a link between them on the shared disk; their own is the driver's."""
    data = place.shared / "data" / "rome"
    readings(spark, 0).repartition(2).sortWithinPartitions("ts").write.parquet(str(data))
    source = {
        "format": "files",
        "path": str(data),
        "schema": COLUMNS,
        "time": "ts",
        "options": {"maxFilesPerTrigger": 1},
    }
    sql = (
        "SELECT window.start AS ts, vm, count(*) AS n, max(cpu) AS cpu FROM rome.machines "
        "GROUP BY window(ts, '2 seconds'), vm"
    )
    query = FederatedQuery.model_validate(
        {
            "query": "count",
            "sql": sql,
            "watermark": 100.0,
            "sink": {"format": "parquet", "path": "out"},
        }
    )
    out = place.shared / "links" / "count" / "out"
    sources = {"rome": {"machines": source}, "oslo": {}}
    with hosts(spark, place.shared, sources, own=place.own) as federation:
        federation.submit(query, root="oslo")
        federation.wait_until_all_is_read(place.shared, "count")
        last = "SELECT timestamp_seconds(3600) ts, 'last' vm, 0.5D cpu, 0.5D mem"
        spark.sql(last).write.mode("append").parquet(str(data))
        plain = spark.sql(sql.replace("rome.machines", f"parquet.`{data}`"))
        wanted = told(row for row in plain.collect() if row["vm"] != "last")

        def found() -> list[list[Any]]:
            federation.check()
            if not list(out.glob("*.parquet")):
                return []
            return told(spark.read.parquet(str(out)).select("ts", "vm", "n", "cpu").collect())

        wait_until(lambda: len(found()) >= len(wanted), 90, "the last windows")
        assert found() == wanted
        assert all(host.site.report().ledger_balanced for host in federation.by_name.values())
    return {"rows": wanted}


def places(spark: SparkSession, place: Place) -> object:
    """A checkpoint or a link that executors would not see is refused, before anything starts."""
    engine = Engine(spark)
    check_shared(engine, "checkpoint", str(place.shared))
    if not engine.on_one_machine:
        own = place.own.as_uri()
        refused("only the driver sees", lambda: check_shared(engine, "links", own))
    return {"left": [path.name for each in (place.shared, place.own) for path in each.iterdir()]}


def refused(why: str, what: Callable[[], object]) -> None:
    with pytest.raises(PenstockError, match=why):
        what()


Feature = Callable[[SparkSession, Place], object]
FEATURES: Mapping[str, Feature] = {
    "rehearsed": rehearsed,
    "places": places,
    "gates": gates,
    "guards": guards,
    "windows": windows,
    "jobs": jobs,
    "federations": federations,
}
