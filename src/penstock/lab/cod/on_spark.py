"""CoD on Spark: streams through a real gate, batch by batch, and through the window processor."""

import os
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from penstock.lab.cod.compare import Compared, at_equal_volume
from penstock.lab.cod.data import CLASS, ORIGIN, USER
from penstock.lab.cod.recorded import AdmittedTuples, WindowedStream
from penstock.lab.result import Result, ResultTable, Say
from penstock.spark.session import borrowed
from penstock.spark.site import Site
from penstock.windows.concept import Concept

_names = count()
CASES_SHARES_WINDOWS = ((ORIGIN, 0.1, 4), (ORIGIN, 0.25, 4), (CLASS, 0.02, 9), (USER, 0.02, 9))
"""Data, shares that are asked for, and windows at full effort."""


class CodGate:
    """Shows on Spark, through its gate, what ``cod`` shows in memory."""

    name: ClassVar[str] = "cod-gate"
    about: ClassVar[str] = "CoD at the gate on Spark, about 60 micro-batches a window"

    def run(self, effort: float, say: Say) -> Result:
        """Runs each case through a gate."""
        batches = 60 if effort >= 0.2 else 3
        found: list[Compared] = []
        with borrowed("reproduce") as spark:
            for number, (case, keep, windows) in enumerate(CASES_SHARES_WINDOWS):
                say(f"{case.name} at {keep:.0%}", number / len(CASES_SHARES_WINDOWS))
                stream, _ = case.stream(max(2, round(windows * effort)))
                terms = Concept(stream.length, keep=keep, time="t")
                found.append(at_equal_volume(stream, through_gate(spark, stream, terms, batches)))
        return _result(found)


def _result(found: list[Compared]) -> Result:
    result = Result("CoD at the gate, on Spark", "Concept-Driven Load Shedding (2018), figure 9")
    rows = [
        (case.name, keep, figures["volume"], *figures["error"].values(), figures["missing"]["cod"])
        for (case, keep, _), figures in zip(
            CASES_SHARES_WINDOWS, (each.figures() for each in found), strict=True
        )
    ]
    columns = ("data", "asked", "kept", "CoD", "oracle", "uniform", "missing")
    result.tables.append(ResultTable("Mean relative error at equal volume", columns, rows))
    ratio = float(np.mean([each.ratio() for each in found[:3]]))
    result.figures["ratio to the oracle"] = ratio
    result.figures["runs"] = [each.figures() for each in found]
    result.holds["the error is at most 2.2 times the oracle's"] = ratio <= 2.2
    for (case, keep, _), each in zip(CASES_SHARES_WINDOWS, found, strict=True):
        lost, there = sum(s.missing for s in each.cod), sum(s.errors.size for s in each.cod)
        claim = f"{case.name} {keep:g}: no group is missing ({lost} of {there:,} of all windows)"
        result.holds[claim] = lost == 0
    gain = found[3].gain()
    result.figures["uniform over CoD, per user"] = gain
    result.holds["per user, the error is at least 10 times less than uniform's"] = gain >= 10
    return result


def through_gate(
    spark: SparkSession, stream: WindowedStream, concept: Concept, batches: int = 60
) -> AdmittedTuples:
    """Returns what the gate kept, and the weights that it stamped.

    The budget is the concept's own, and the latency allowed is so long that the machine's speed
    decides nothing.
    """
    with TemporaryDirectory() as folder:
        raw = files(spark, stream, Path(folder), batches)
        with Site(spark, interval="50ms", latency="2h", stw="10s") as site:
            gated = site.gate(raw, query="q", source="s", strata="g", id="n", concept=concept)
            writer = gated.select("n", "_weight").writeStream.format("memory")
            query = site.start(writer, name=f"cod_{next(_names)}")
            query.processAllAvailable()
            rows = spark.table(query.name).toPandas()
            query.stop()
            spark.catalog.dropTempView(query.name)
    kept, weight = np.zeros(len(stream), dtype=np.bool_), np.ones(len(stream))
    places = rows["n"].to_numpy()
    kept[places] = True
    weight[places] = rows["_weight"].to_numpy()
    return AdmittedTuples(kept, weight)


def files(spark: SparkSession, stream: WindowedStream, folder: Path, batches: int) -> DataFrame:
    """Returns a stream whose micro-batches are the stream's batches, in order."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(stream.batches(batches)):
        columns = {
            "n": np.arange(part.start, part.stop),
            "t": stream.time[part],
            "g": stream.group[part],
            "x": stream.value[part],
        }
        path = folder / f"{number:05d}.parquet"
        parquet.write_table(arrow.table(columns), path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files by age
    schema = "n bigint, t double, g bigint, x double"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))
