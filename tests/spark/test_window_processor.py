"""The window manager on Spark: medians of raw tuples, whole and shed, tumbling and sliding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from penstock.concept.generator import Generator
from penstock.concept.shedders import shedder
from penstock.concept.stream import Stream
from penstock.experiments.cod_gate import files
from penstock.spark.window_processor import Manager, process_windows
from penstock.types import PenstockError

STREAM = Generator(groups=20, tuples=4000, skew=1.2, overlap=0.5).stream(3, seed=4)


def middle(rows: pd.DataFrame) -> dict[str, float]:
    return {"middle": float(rows["x"].median()), "standing": float(rows["_weight"].sum())}


def medians(
    spark: SparkSession, folder: Path, name: str, slide: str | None = None, **how: Any
) -> pd.DataFrame:
    raw = files(spark, STREAM, folder, 5)
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
    manager = Manager(middle, shedder("none", 1.0), 60.0, 20.0, None, ("x",))
    held: Any = Held()
    manager.init(held)
    rows = pd.DataFrame({"x": [1.0, 2.0, 3.0], "t": [5.0, 25.0, 130.0], "g": ["a", "a", "b"]})
    rows["shard"] = 0
    list(manager.handleInputRows((0,), iter([rows]), TimerValues()))
    assert sorted(held.timers) == [1000 * end for end in (20, 40, 60, 80, 140, 160, 180)]
    for end, left in ((20, 3), (40, 3), (60, 2), (80, 1), (140, 1), (160, 1), (180, 0)):
        (result,) = manager.handleExpiredTimer((0,), TimerValues(), ExpiredTimerInfo(1000 * end))
        assert (result["end"] == pd.Timestamp(end, unit="s")).all()
        assert len(held.chunks) == left
    assert held.value is None


def test_bad_use_is_told(spark: SparkSession, tmp_path: Path) -> None:
    raw = files(
        spark, Stream(*(np.zeros(3),), np.zeros(3, dtype=np.int64), np.ones(3), 60.0), tmp_path, 1
    )
    with pytest.raises(PenstockError, match="no column 'when'"):
        process_windows(raw, middle, "middle double", time="when", window="1m")
    with pytest.raises(PenstockError, match="no multiple"):
        process_windows(raw, middle, "middle double", time="t", window="1m", slide="25s")
