"""Sets the flag of an interval beside how often such intervals hold the truth.

A case is a stream of many windows, of which tuples are kept at some rate; all windows of a case are
alike, so that the share of their intervals that hold the truth is known. The flag sees one sample.
How well any flag could tell two streams apart by a few tuples is told, too: by the most powerful
test there is, which knows both distributions (Neyman and Pearson, 1933).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from penstock import functions as pf
from penstock.core.types import Floats
from penstock.lab.bench import harness as h

WINDOWS = 1000
COVERS, DOES_NOT_COVER = (0.93, 0.97), 0.90
CERTIFIED_THEN = 0.95
SAMPLES_OF_TEST = 20_000
SIGMA = 1.5
LOG_SCALES = np.arange(-1.5, 0.1, 0.1)
"""The scales of the lognormal stream, of which the one most like the exponential one is told."""

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
STREAMS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(10.0, 2.0, shape),
    "even": lambda rng, shape: rng.random(shape),
    "exponential": lambda rng, shape: rng.exponential(1.0, shape),
    "lognormal, σ 1": lambda rng, shape: rng.lognormal(0.0, 1.0, shape),
    "lognormal, σ 1.5": lambda rng, shape: rng.lognormal(0.0, 1.5, shape),
    "lognormal, σ 2": lambda rng, shape: rng.lognormal(0.0, 2.0, shape),
    "Pareto, α 1.5": lambda rng, shape: rng.pareto(1.5, shape),
    "one in a hundred is 100": lambda rng, shape: np.where(rng.random(shape) < 0.01, 100.0, 1.0),
}


@dataclass(frozen=True)
class Windows:
    """Describes windows; with a second rate, the second half of each is kept at that."""

    stream: str
    tuples: int
    rate: float
    then: float | None = None

    @property
    def name(self) -> str:
        """Says what it is."""
        changing = "" if self.then is None else f" and then {self.then:g}"
        return f"{self.stream}, {self.tuples} tuples at {self.rate:g}{changing}"

    def kept(self, windows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, Floats]:
        """Draws the tuples that are kept, and returns each window's true mean."""
        values = STREAMS[self.stream](rng, (windows, self.tuples))
        rates = np.full(self.tuples, self.rate)
        rates[self.tuples // 2 :] = self.rate if self.then is None else self.then
        kept = rng.random(values.shape) < rates
        columns = {
            "case": self.name,
            "window": np.nonzero(kept)[0],
            "x": values[kept],
            "_weight": np.broadcast_to(1 / rates, values.shape)[kept],
        }
        return pd.DataFrame(columns), values.mean(axis=1)


CASES = (
    *(Windows("normal", tuples, 0.2) for tuples in (40, 100, 150, 200, 400)),
    *(Windows("even", tuples, 0.2) for tuples in (40, 100, 400)),
    *(Windows("exponential", tuples, 0.2) for tuples in (30, 100, 300, 500, 1000, 3000)),
    *(Windows("lognormal, σ 1", tuples, 0.2) for tuples in (100, 500, 2000)),
    *(Windows("lognormal, σ 1.5", tuples, 0.2) for tuples in (30, 100, 500, 3000)),
    *(Windows("one in a hundred is 100", tuples, 0.3) for tuples in (60, 2000)),
    Windows("normal", 8, 0.25),
    Windows("normal", 400, 0.9, 0.1),
    Windows("normal", 1000, 0.9, 0.1),
    Windows("exponential", 400, 0.9, 0.1),
    Windows("lognormal, σ 1", 400, 0.9, 0.1),
)
HEAVIER = tuple(
    Windows(stream, tuples, 0.2)
    for stream in ("lognormal, σ 2", "Pareto, α 1.5")
    for tuples in (100, 500)
)
"""Streams whose tails a sample of theirs rarely shows."""
FEWEST_TUPLES = 12
"""Windows with fewer are not certified, whatever their stream."""


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Finds coverage and flag of the means of all cases."""
    windows = round(WINDOWS * min(seconds / h.MEANINGFUL_SECONDS, 1.0))
    rng = np.random.default_rng(7)
    drawn = {case.name: case.kept(windows, rng) for case in (*CASES, *HEAVIER)}
    rows = spark.createDataFrame(pd.concat([frame for frame, _ in drawn.values()]))
    means = rows.groupBy("case", "window").agg(pf.avg("x", bounds=True).alias("mean"))
    told = means.select("case", "window", "mean.*").toPandas().set_index("case")
    judged = {name: _judged(told.loc[[name]], truth) for name, (_, truth) in drawn.items()}
    found = {case.name: judged[case.name] for case in CASES}
    covering = {n: f for n, f in found.items() if COVERS[0] <= f["coverage"] <= COVERS[1]}
    failing = {n: f for n, f in found.items() if f["coverage"] < DOES_NOT_COVER}
    return {
        "cases": found,
        "heavier_tails": {case.name: judged[case.name] for case in HEAVIER},
        "covering": len(covering),
        "certified_of_covering": _mean(covering),
        "failing": len(failing),
        "certified_of_failing": _mean(failing),
        "best_flag": {n: best_flag(n, rng) for n in (6, 12, 20)},
        "holds": {
            f"of intervals that cover, at least 95 % are certified, {what}": all(
                f["certified"] >= CERTIFIED_THEN for f in some
            )
            for what, some in _by_size(covering).items()
        }
        | {
            "of intervals that do not, at most 5 % are": all(
                f["certified"] <= 1 - CERTIFIED_THEN for f in failing.values()
            ),
        },
    }


def _judged(told: pd.DataFrame, truth: Floats) -> dict[str, float]:
    true = truth[told["window"].to_numpy()]
    holds = (told["low"] <= true) & (true <= told["high"])
    sure = told["certified"].to_numpy(dtype=bool)
    return {
        "effective_tuples": float(told["n"].median()),
        "half_length": float(((told["high"] - told["low"]) / 2).median()),
        "coverage": float(holds.mean()),
        "certified": float(sure.mean()),
        "coverage_of_certified": float(holds[sure].mean()) if sure.any() else float("nan"),
    }


def _by_size(found: dict[str, dict[str, float]]) -> dict[str, list[dict[str, float]]]:
    few = f"fewer than {FEWEST_TUPLES} tuples"
    many = f"{FEWEST_TUPLES} tuples and more"
    return {
        few: [f for f in found.values() if f["effective_tuples"] < FEWEST_TUPLES],
        many: [f for f in found.values() if f["effective_tuples"] >= FEWEST_TUPLES],
    }


def _mean(found: dict[str, dict[str, float]]) -> float:
    return float(np.mean([each["certified"] for each in found.values()])) if found else 0.0


def best_flag(tuples: int, rng: np.random.Generator) -> float:
    """Answers how many lognormal samples pass the best test that 95 % of exponential ones pass."""
    passes = 0.0
    for scale in LOG_SCALES:
        exponential = rng.exponential(1.0, (SAMPLES_OF_TEST, tuples))
        lognormal = rng.lognormal(scale, SIGMA, (SAMPLES_OF_TEST, tuples))
        limit = np.quantile(_likelier(exponential, scale), CERTIFIED_THEN)
        passes = max(passes, float((_likelier(lognormal, scale) <= limit).mean()))
    return passes


def _likelier(samples: Floats, scale: float) -> Floats:
    """Returns by how much a sample is likelier to be lognormal, but for a constant."""
    logs = np.log(samples)
    ratio: Floats = (samples - logs - ((logs - scale) / SIGMA) ** 2 / 2).sum(axis=1)
    return ratio
