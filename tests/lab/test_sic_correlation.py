"""THEMIS' figures 6 and 7, in small."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.lab.experiments import get
from penstock.lab.themis.sic_correlation import (
    QUERIES,
    RATES,
    ErrorPoint,
    kept_shares,
    rank_correlation,
)


def test_error_falls_as_sic_rises(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark
    monkeypatch.setenv("PENSTOCK_DATA", "/nowhere")
    result = get("sic-correlation").run(0.0, lambda *_: None)
    curves = result.figures["curves"]
    assert curves.keys() == {query.name for query in QUERIES}
    for name, by_set in curves.items():
        for points in by_set.values():
            assert len(points) == len(RATES)
            assert points[-1]["error"] == pytest.approx(0.0, abs=1e-9)
            assert points[0]["error"] > points[-1]["error"]
            measured = [p["sic"] for p in points]
            assert measured == pytest.approx(RATES, abs=0.15), name
            assert measured != pytest.approx(RATES, abs=1e-6), "a measure is no setting"
            assert measured[-1] == 1.0
    for points in curves["COUNT, unscaled"].values():
        assert all(abs(p["error"] - (1 - p["sic"])) < 0.06 for p in points)
    assert max(p["error"] for p in curves["COUNT, weighted"]["uniform"]) < 0.4


def test_what_is_kept_is_counted(spark: SparkSession) -> None:
    """Two windows of 4 and 2 tuples; of the first one is left at the first rate, of the other none.

    The places of a window's rates are as many seconds apart as there are windows.
    """
    tuples = spark.createDataFrame([(0,)] * 4 + [(1,)] * 2, "unit long")
    view = spark.createDataFrame([(0, 0), (0, 9), (0, 9), (1, 9)], "unit long, step int")
    shares = kept_shares(tuples, view, units=2)
    assert len(shares) == 2 * len(RATES)
    assert {second: share for second, share in shares.items() if share} == {
        0: 0.25,
        18: 0.5,
        19: 0.5,
    }


def test_rank_correlation_is_spearmans() -> None:
    falling = [ErrorPoint(rate, rate, rate, 1 - rate, 1) for rate in RATES]
    assert rank_correlation(falling) == pytest.approx(-1.0)
    swapped = [falling[1], falling[0], *falling[2:]]
    mixed = [
        ErrorPoint(a.rate, a.sic, a.told, b.error, 1) for a, b in zip(falling, swapped, strict=True)
    ]
    assert rank_correlation(mixed) == pytest.approx(1 - 2 - (-6 * 2 / (10 * 99)))
