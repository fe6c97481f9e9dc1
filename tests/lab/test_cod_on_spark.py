"""The concept at a real gate: groups, weights, values, a million groups, and bad use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import Concept, Site
from penstock import functions as pf
from penstock.core.types import Stratum
from penstock.errors import PenstockError
from penstock.lab.cod.compare import at_equal_volume, mean_error
from penstock.lab.cod.drifting import DriftingStream
from penstock.lab.cod.on_spark import CASES_SHARES_WINDOWS, files, through_gate
from penstock.lab.cod.recorded import WindowedStream
from penstock.lab.cod.scores import score
from penstock.lab.experiments import get
from penstock.windows.in_force import ConceptWindows
from penstock.windows.window import Window


def test_every_group_comes_through_and_weights_make_up_for_the_rest(spark: SparkSession) -> None:
    """Half of the groups change from one window to the next."""
    stream = DriftingStream(groups=60, tuples=6000, skew=1.2, overlap=0.5).stream(2, seed=1)
    kept = through_gate(spark, stream, Concept("1m", keep=0.15, time="t"), batches=8)
    compared = at_equal_volume(stream, kept)
    scores = score(stream, kept)
    assert sum(s.missing for s in scores) == 0
    assert mean_error(compared.cod) <= 2.2 * mean_error(compared.oracle)
    assert mean_error(compared.cod) < mean_error(compared.uniform)
    assert np.mean([s.volume for s in scores[1:]]) == pytest.approx(0.15, rel=0.25)
    for window in stream.windows():
        told = kept.weight[window][kept.kept[window]]
        spread = np.sqrt((told * (told - 1)).sum())
        assert told.sum() == pytest.approx(6000, abs=4 * spread)  # law 7


def _window(site: Site) -> Window:
    windows = site.state.windows
    assert isinstance(windows, ConceptWindows)
    return windows.by_query["q"]


def test_values_reach_the_controller(spark: SparkSession, tmp_path: Path) -> None:
    """An error target: what is not needed for it is shed, without any overload."""
    stream = DriftingStream(groups=4, tuples=12_000, skew=0.5, spread=0.3).stream(1, seed=1)
    raw = files(spark, stream, tmp_path, 6)
    terms = Concept("1m", error="5%", value="x", time="timestamp_seconds(t)")
    with Site(spark, interval="50ms", latency="2h") as site:
        gated = site.gate(raw, query="q", strata="g", id="n", concept=terms)
        writer = gated.groupBy("g").agg(
            pf.avg("x", bounds=True).alias("mean"),
            pf.within("x", error=0.065).alias("met"),
            pf.within("x", error=0.02).alias("much better"),
        )
        query = site.start(
            writer.writeStream.format("memory").outputMode("complete"), name="concept_values"
        )
        query.processAllAvailable()
        found = spark.table("concept_values").orderBy("g").collect()
        moments = _window(site).moments.groups
        assert site.report().to_dict()["queries"][0]["shed"] > 1000
        assert site.ledger.balanced
    truth = np.bincount(stream.group, stream.value) / np.bincount(stream.group)
    for g, row in enumerate(found):
        assert row["mean"]["low"] <= truth[g] * 1.02
        assert row["mean"]["high"] >= truth[g] * 0.98
        assert row["met"]  # the estimate of the error is an estimate too
        assert not row["much better"]
        spread = np.sqrt(moments[Stratum("q", "source", str(g))].squares)
        assert spread > 0


def test_a_million_groups_are_no_problem(spark: SparkSession, tmp_path: Path) -> None:
    """A flood of groups that come once, and five heavy ones: memory is bounded, all pass but
    those, and they are thinned."""
    rng = np.random.default_rng(0)
    size = 60_000
    group = np.where(
        rng.random(size * 4) < 0.5, rng.integers(0, 5, size * 4), np.arange(size * 4) + 5
    )
    stream = WindowedStream(np.arange(size * 4) / size / 4 * 60, group, np.ones(size * 4), 60.0)
    raw = files(spark, stream, tmp_path, 4)
    with Site(spark, interval="50ms", latency="2h") as site:
        terms = Concept("1m", keep=0.2, time="t")
        gated = site.gate(raw, query="q", strata="g", id="n", concept=terms, max_strata=200)
        query = site.start(
            gated.groupBy((sf.col("g") < 5).alias("heavy"))
            .agg(sf.count(sf.lit(1)).alias("kept"), pf.count("*").alias("count"))
            .writeStream.format("memory")
            .outputMode("complete"),
            name="concept_million",
        )
        query.processAllAvailable()
        kept = {row["heavy"]: row for row in spark.table("concept_million").collect()}
        (gate,) = site.gates.values()
        assert len(gate.strata.fingerprints) <= 200
        assert len(site.plan.strata) <= 200
        assert len(_window(site).groups) <= 500
    light, heavy = int((group >= 5).sum()), int((group < 5).sum())
    assert kept[False]["kept"] > 0.95 * light
    assert kept[True]["kept"] < 0.6 * heavy
    assert kept[True]["count"] == pytest.approx(heavy, rel=0.1)


def test_a_join_spends_on_keys_that_are_on_both_streams(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Keys 0 to 9 are on both, 10 to 19 and 20 to 29 on one of them only."""
    left = DriftingStream(groups=20, tuples=4000, skew=0.0).stream(1, seed=1)
    right = replace(left, group=np.where(left.group < 10, left.group, left.group + 10))
    terms = Concept("1m", keep=0.2, time="t", join=True)
    with Site(spark, interval="50ms", latency="2h") as site:
        sides = [
            site.gate(
                files(spark, stream, tmp_path / name, 8), query="q", source=name, strata="g",
                id="n", concept=terms,
            )
            for name, stream in (("left", left), ("right", right))
        ]  # fmt: skip
        joined = (
            sides[0]
            .select("g", sf.col("_weight").alias("w"))
            .join(sides[1].select("g", sf.col("_weight").alias("v")), "g")
        )
        query = site.start(
            joined.select("g", sf.expr("w * v").alias("pairs")).writeStream.format("memory"),
            name="concept_join",
        )
        query.processAllAvailable()
        told = spark.sql("SELECT g, sum(pairs) AS pairs FROM concept_join GROUP BY g").collect()
        pane = _window(site).panes
    kept = dict(zip(pane.strata, (pane.admitted() / pane.arrived()).tolist(), strict=True))
    both, alone = list[float](), list[float]()
    for stratum, share in kept.items():
        (both if int(stratum.group) < 10 else alone).append(share)
    assert len(kept) == 40
    assert np.mean(both) > 1.3 * np.mean(alone)
    truth = np.bincount(left.group)[:10].astype(float) ** 2
    errors = [abs(row["pairs"] / truth[row["g"]] - 1) for row in told]
    assert len(errors) == 10
    assert np.mean(errors) < 0.5


def test_bad_terms_are_refused_at_the_gate(spark: SparkSession, tmp_path: Path) -> None:
    raw = files(spark, DriftingStream(groups=5, tuples=50).stream(1), tmp_path, 1)
    with Site(spark) as site:
        with pytest.raises(PenstockError, match=r"time must be .* got 'when'"):
            site.gate(raw, query="q", strata="g", concept=Concept("1m", time="when"))
        with pytest.raises(PenstockError, match="query must be a name"):
            site.gate(raw, query=sf.col("g"), concept=Concept("1m"))


def test_the_experiment_runs_without_data(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    result = get("cod-gate").run(0.01, lambda _, __: None)
    assert spark.streams.active == []
    assert len(result.tables[0].rows) == len(CASES_SHARES_WINDOWS)
    missing = {
        claim: good for claim, good in result.holds.items() if "no group is missing" in claim
    }
    assert len(missing) == len(CASES_SHARES_WINDOWS)
    assert all(good for claim, good in missing.items() if claim.startswith(("flights", "google-c")))
    for row in result.tables[0].rows:
        errors = dict(zip(result.tables[0].columns, row, strict=True))
        assert float(str(errors["oracle"])) < float(str(errors["uniform"]))
