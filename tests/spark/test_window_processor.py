"""The window processor on Spark: medians of raw tuples, whole and shed, tumbling and sliding."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from penstock.errors import PenstockError
from penstock.lab.cod.drifting import DriftingStream
from penstock.lab.cod.on_spark import files
from penstock.spark.stored_windows import WindowProcessor
from penstock.spark.window_processor import process_windows
from penstock.windows.buffer import Buffer
from penstock.windows.sampling import shedder

STREAM = DriftingStream(groups=20, tuples=4000, skew=1.2, overlap=0.5).stream(3, seed=4)


def middle(rows: pd.DataFrame) -> dict[str, float]:
    return {"middle": float(rows["x"].median()), "standing": float(rows["_weight"].sum())}


def medians(
    spark: SparkSession, folder: Path, name: str, slide: str | None = None, **how: Any
) -> pd.DataFrame:
    raw = files(spark, STREAM, folder, 3)
    stamped = raw.select(sf.col("t").cast("timestamp").alias("at"), "g", "x")
    out: DataFrame = process_windows(
        stamped.withWatermark("at", "0 seconds"),
        middle,
        "middle double, standing double",
        time="at",
        groups="g",
        window="60s",
        slide=slide,
        **how,
    )
    query = out.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(90)
    assert query.lastProgress is not None
    found = spark.table(name).toPandas()
    found["end"] = found["end"].astype("int64") // 10 ** (9 if found["end"].dt.unit == "ns" else 6)
    return found


def truth(end: float) -> dict[str, float]:
    first, last = np.searchsorted(STREAM.time, (end - 60, end))
    frame = pd.DataFrame({"g": STREAM.group[first:last], "x": STREAM.value[first:last]})
    return {str(g): float(x) for g, x in frame.groupby("g")["x"].median().items()}


def test_without_shedding_it_is_exact_in_sliding_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = medians(spark, tmp_path, "whole", slide="20s", shed="none")
    for end, rows in found.groupby("end"):
        assert dict(zip(rows["group"], rows["middle"], strict=True)) == pytest.approx(
            truth(float(str(end)))
        )
    assert found["end"].nunique() >= 6
    assert (found["kept"] == found["arrived"]).all()


def test_windows_of_which_nothing_is_kept_have_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = medians(spark, tmp_path, "nothing", shed="uniform", keep=1e-9)
    assert found.empty


def test_times_are_exact_to_the_microsecond() -> None:
    kept = shedder("none", 1.0)
    processor = WindowProcessor(middle, kept, 0.1, 0.1, None, ("x",), ("middle", "standing"))
    moments, groups = np.array([1_700_000_000.05]), np.array(["g"])
    buffer = Buffer(0.1, 0.1).add(moments, groups, {"x": np.array([1.0])}, (0,))
    row = processor.process(buffer, 1_700_000_000.1).rows.iloc[0]
    assert str(row["start"]) == "2023-11-14 22:13:20+00:00"
    assert str(row["end"]) == "2023-11-14 22:13:20.100000+00:00"


def test_shed_by_concept_no_group_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    found = medians(spark, tmp_path, "shed", shed="concept", keep=0.1, shards=2)
    assert found["end"].nunique() == 2
    for end, rows in found.groupby("end"):
        exact = truth(float(str(end)))
        assert set(rows["group"]) == set(exact)
        errors = [abs(m / exact[g] - 1) for g, m in zip(rows["group"], rows["middle"], strict=True)]
        assert np.mean(errors) < 0.25
        assert rows["standing"].sum() == pytest.approx(4000)
        shares = rows.drop_duplicates("kept")
        assert shares["kept"].sum() == pytest.approx(400, abs=20)


def test_an_error_says_how_many_tuples_stay(spark: SparkSession, tmp_path: Path) -> None:
    """Against the textbook's size for each group, from its tuples' spread in the window."""
    found = medians(spark, tmp_path, "accurate", error=0.1, value="x")
    assert found["end"].nunique() == 2
    for end, rows in found.groupby("end"):
        first, last = np.searchsorted(STREAM.time, (float(str(end)) - 60, float(str(end))))
        frame = pd.DataFrame({"g": STREAM.group[first:last], "x": STREAM.value[first:last]})
        told = frame.groupby("g")["x"].agg(["count", "mean", "std"])
        wanted = (1.959964 * told["std"] / told["mean"].abs() / 0.1) ** 2
        sizes = (wanted / (1 + wanted / told["count"])).clip(lower=30)
        stays = np.minimum(sizes, told["count"]).sum()
        assert rows["kept"].max() == pytest.approx(stays, rel=0.1)
        assert rows["kept"].max() < 0.9 * rows["arrived"].max()
        assert rows["standing"].sum() == pytest.approx(4000)


def test_what_is_stored_is_bounded(spark: SparkSession, tmp_path: Path) -> None:
    """A window of 4,000 tuples of which 1,000 may be stored: the others count all the same."""
    found = medians(spark, tmp_path, "bounded", shed="none", most=1000)
    assert found["end"].nunique() == 2
    for end, rows in found.groupby("end"):
        assert set(rows["group"]) == set(truth(float(str(end))))
        assert rows["standing"].sum() == pytest.approx(4000)
        assert rows["kept"].max() <= 1000


class Held:
    """A shard's state as Spark gives it to a processor, held in a dictionary."""

    def __init__(self) -> None:
        self.value: Any = None
        self.chunks: dict[Any, Any] = {}
        self.timers: set[int] = set()

    def getValueState(self, *_: str) -> Held:
        return self

    def getMapState(self, *_: str) -> Held:
        return self

    def registerTimer(self, millis: int) -> None:
        self.timers.add(millis)

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None

    def getValue(self, key: Any) -> Any:
        return self.chunks[key]

    def updateValue(self, key: Any, value: Any) -> None:
        self.chunks[key] = value

    def removeKey(self, key: Any) -> None:
        del self.chunks[key]


def test_what_no_window_needs_is_evicted() -> None:
    processor = WindowProcessor(
        middle, shedder("none", 1.0), 60.0, 20.0, None, ("x",), ("middle", "standing")
    )
    held: Any = Held()
    processor.init(held)
    rows = pd.DataFrame({"x": [1.0, 2.0, 3.0], "t": [5.0, 25.0, 130.0], "g": ["a", "a", "b"]})
    rows["shard"] = 0
    list(processor.handleInputRows((0,), iter([rows]), TimerValues()))
    assert sorted(held.timers) == [1000 * end for end in (20, 40, 60, 80, 140, 160, 180)]
    for end, left in ((20, 3), (40, 3), (60, 2), (80, 1), (140, 1), (160, 1), (180, 0)):
        info = ExpiredTimerInfo(1000 * end)
        result, counts = processor.handleExpiredTimer((0,), TimerValues(), info)
        assert (result["end"] == pd.Timestamp(end, unit="s", tz="UTC")).all()
        assert counts[["kept", "arrived", "_is_result"]].to_numpy().tolist() == [
            [result["kept"].iloc[0], result["arrived"].iloc[0], False]
        ]
        assert len(held.chunks) == left
    assert held.value is None


def total(rows: pd.DataFrame) -> dict[str, float]:
    return {"total": float(rows["_weight"].sum())}


def test_zones_groups_nulls_and_weights(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark's own windows: in the session's zone, groups apart, rows without a time left out.
    And what a gate in front made of weights counts.
    """
    data = [
        ("2024-03-01 10:00:01", "a,b", "c", 10.0),
        ("2024-03-01 10:00:02", "a", "b,c", 10.0),
        ("2024-03-01 10:00:03", None, "", 10.0),
        ("2024-03-01 10:00:04", "", None, 10.0),
        (None, "a", "a", 10.0),
        ("2024-03-01 11:00:00", "z", "z", 1.0),
    ]
    spark.createDataFrame(data, "at string, g string, h string, _weight double").coalesce(
        1
    ).write.parquet(str(tmp_path / "rows"))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = spark.readStream.schema("at string, g string, h string, _weight double").parquet(
            str(tmp_path / "rows")
        )
        stream = rows.withColumn("at", sf.to_timestamp("at")).withWatermark("at", "0 seconds")
        out = process_windows(
            stream, total, "total double", time="at", groups=["g", "h"], window="1m"
        )
        text = out.withColumn("start", sf.date_format("start", "yyyy-MM-dd HH:mm:ss"))
        query = text.writeStream.format("memory").queryName("zones").trigger(availableNow=True)
        assert query.start().awaitTermination(90)
        found = spark.table("zones").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert {row["start"] for row in found} == {"2024-03-01 10:00:00"}
    assert {row["group"] for row in found} == {"a\\,b,c", "a,b\\,c", "\\N,", ",\\N"}
    assert [row["total"] for row in found] == [10.0] * 4


def test_arguments_that_make_no_sense_are_told(spark: SparkSession, tmp_path: Path) -> None:
    raw = files(spark, STREAM, tmp_path, 1).withColumn("at", sf.col("t").cast("timestamp"))
    good = raw.withWatermark("at", "0 seconds")

    def windows(stream: DataFrame = good, schema: str = "total double", **how: Any) -> DataFrame:
        return process_windows(stream, total, schema, **{"time": "at", "window": "1m", **how})

    for message, wrong in [
        ("time must be a column with a watermark, such as stream.withWatermark", {"stream": raw}),
        ("or no window would ever end; got 't'", {"time": "t"}),
        ("time: the stream has no column 'when'", {"time": "when"}),
        (
            "window must be a multiple of slide, such as '10m' of '5m'; got '1m' and '7s'",
            {"slide": "7s"},
        ),
        ("error and value must be given together", {"error": 0.05}),
        ("error and value must be given together", {"value": "x"}),
        ("value: the stream has no column 'y'", {"error": 0.05, "value": "y"}),
        ("error must be a share", {"error": 2, "value": "x"}),
        ("confidence must lie between 0 and 1", {"error": 0.1, "value": "x", "confidence": 95}),
        ("error must be given without keep", {"error": 0.1, "value": "x", "keep": 0.5}),
        ("by must be one of equal, proportional; got 'size'", {"by": "size"}),
        ("shed must be one of concept, uniform, none; got 'some'", {"shed": "some"}),
        ("needs a streaming DataFrame", {"stream": spark.range(3)}),
        ("shards must be a whole number from 1, such as 2; got 0", {"shards": 0}),
        ("most must be a whole number from 1, such as 1_000_000; got 0", {"most": 0}),
        ("keep must be a share, such as 0.05 or '5%'; got 'some'", {"keep": "some"}),
        ("schema must have other names than every result has", {"schema": "start double"}),
        ("arrived, millis); got 'Start'", {"schema": "Start double"}),
        (
            "schema must be a list of names and types, such as 'median double, n int'; got ",
            {"schema": "total dubble"},
        ),
        ("got 'double', which lacks a name", {"schema": "double"}),
        (
            "slide must be a whole number of microseconds, such as '10 seconds'; got 6.66",
            {"window": 20, "slide": 20 / 3},
        ),
    ]:
        with pytest.raises(PenstockError, match=re.escape(message)):
            windows(**wrong)  # type: ignore[arg-type]
    assert windows(keep="3%").columns[3] == "total"


def test_a_function_with_other_columns_is_told() -> None:
    processor = WindowProcessor(total, shedder("none", 1.0), 60.0, 60.0, None, ("x",), ("sum",))
    buffer = Buffer(60.0, 60.0).add(np.zeros(1), np.array(["g"]), {"x": np.ones(1)}, (0,))
    with pytest.raises(PenstockError, match=r"must return a dictionary .* \{'sum': \.\.\.\}; got"):
        processor.process(buffer, 60.0)
