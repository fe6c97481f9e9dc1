"""The window manager on Spark: medians of raw tuples, whole and shed, tumbling and sliding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.concept.generator import Generator
from penstock.concept.stream import Stream
from penstock.experiments.cod_gate import files
from penstock.spark.window_processor import process_windows
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


def test_bad_use_is_told(spark: SparkSession, tmp_path: Path) -> None:
    raw = files(
        spark, Stream(*(np.zeros(3),), np.zeros(3, dtype=np.int64), np.ones(3), 60.0), tmp_path, 1
    )
    with pytest.raises(PenstockError, match="no column 'when'"):
        process_windows(raw, middle, "middle double", time="when", window="1m")
    with pytest.raises(PenstockError, match="no multiple"):
        process_windows(raw, middle, "middle double", time="t", window="1m", slide="25s")
