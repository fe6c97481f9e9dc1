"""THEMIS, section 7.1, figures 6 and 7; the thesis, 6.1 to 6.4: is SIC a measure of correctness?

Tuples are shed at random at rates from 0.1 to 1, and the error of each query's result is set
against the SIC of that result: what was kept of its window over what arrived, counted, as a mean
over the query's sources. Beside it stands what the rows say of themselves. The queries are those of
THEMIS' table 1 in SQL, rewritten as ``penstock run`` rewrites them, over tuples that a gate's
arithmetic has admitted. They run on Spark as batches: live, more than a hundred windows for each of
ten rates and five data sets would take hours.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.core.fairness import kendall_top_k
from penstock.jobs.results import answer
from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.themis.sic_streams import (
    SYNTHETIC,
    VALUES_PER_WINDOW,
    DataSet,
    PlanetLab,
    synthetic,
    synthetic_nodes,
    synthetic_pairs,
)
from penstock.plots import Line, Plot
from penstock.spark.session import borrowed
from penstock.sql import Source, rewrite

RATES = tuple(round(0.1 * step, 1) for step in range(1, 11))
WINDOWS_PER_RATE = 150
COUNT_WINDOW_TUPLES = 10_000
"""Tuples in a window of the COUNT query."""
SMALLEST_ERROR = 0.005
"""An error below this is none worth correlating."""
MOST_OFF = 0.02
"""Rows may say a SIC that is off by so much."""
WINDOW_SQL = "window(ts, '1 second')"


@dataclass(frozen=True)
class MeasuredQuery:
    """Is a query of table 1, with its data and the error of one window's answer."""

    name: str
    sql: str
    data: str
    error: Callable[[Any, Any], float]
    measure: str
    plain: bool = False
    """Run without being rewritten, as the paper does."""


def _relative(found: Any, true: Any) -> float:
    return float(abs(found - true) / abs(true) if true else abs(found))


def _difference(found: Any, true: Any) -> float:
    return float(found - true)


def _kendall(found: Any, true: Any) -> float:
    return kendall_top_k(tuple(found), tuple(true))


COUNT_SQL = (
    f"SELECT window.start, count(value) AS answer FROM src WHERE value >= 50 GROUP BY {WINDOW_SQL}"
)
TOP_5_SQL = f"""
WITH busy AS (SELECT window, node, avg(value) AS value FROM src GROUP BY {WINDOW_SQL}, node),
  spare AS (SELECT window, node, avg(free) AS free FROM memory GROUP BY {WINDOW_SQL}, node)
SELECT busy.window.start, max_by(busy.node, busy.value, 5) AS answer
FROM busy JOIN spare ON busy.window = spare.window AND busy.node = spare.node
WHERE spare.free >= 100000
GROUP BY busy.window"""
COV_SQL = """
SELECT window.start, covar_pop(src.value, partner.other) AS answer
FROM src[Range 1 sec], partner[Range 1 sec] WHERE src.seq = partner.seq"""
QUERIES = (
    MeasuredQuery(
        "AVG",
        f"SELECT window.start, avg(value) AS answer FROM src GROUP BY {WINDOW_SQL}",
        "values",
        _relative,
        "mean absolute error (share)",
    ),
    MeasuredQuery(
        "MAX",
        f"SELECT window.start, max(value) AS answer FROM src GROUP BY {WINDOW_SQL}",
        "values",
        _relative,
        "mean absolute error (share)",
    ),
    MeasuredQuery(
        "COUNT, unscaled", COUNT_SQL, "many", _relative, "mean absolute error (share)", plain=True
    ),
    MeasuredQuery("COUNT, weighted", COUNT_SQL, "many", _relative, "mean absolute error (share)"),
    MeasuredQuery("TOP-5", TOP_5_SQL, "nodes", _kendall, "Kendall's distance (0 to 1)"),
    MeasuredQuery(
        "COV", COV_SQL, "pairs", _difference, "standard deviation (share of the covariance)"
    ),
)


@dataclass(frozen=True)
class ErrorPoint:
    """Holds the SIC and the error of a query at one rate, as means over windows."""

    rate: float
    sic: float
    """Kept over arrived, as counted."""
    told: float
    """What the rows say."""
    error: float
    windows: int


Curves = dict[str, dict[str, list[ErrorPoint]]]
"""By query, by data set."""


class SicCorrelation:
    """Reproduces figures 6 and 7."""

    name: ClassVar[str] = "sic-correlation"
    about: ClassVar[str] = "THEMIS figures 6 and 7: error of results against their SIC"

    def run(self, effort: float, say: Say) -> Result:
        """Answers all queries at all rates, and correlates errors with SIC."""
        windows = max(6, round(WINDOWS_PER_RATE * effort))
        many = COUNT_WINDOW_TUPLES if effort >= 0.1 else 500
        curves: Curves = {}
        with borrowed("reproduce") as spark, TemporaryDirectory() as directory:
            data = _data(windows, many, Path(directory))
            for number, query in enumerate(QUERIES):
                say(query.name, number / len(QUERIES))
                curves[query.name] = _curve(spark, query, data[query.data], Path(directory))
        return _result(curves, windows, many)


# --- data -----------------------------------------------------------------------------------------

Sets = dict[str, int]
"""The data sets of a file, and how many windows each has, in the order of their event time."""


def _data(windows: int, many: int, directory: Path) -> dict[str, Sets]:
    """Writes a Parquet file for each shape of stream."""
    makers: dict[str, Callable[[str, Any], DataSet]] = {
        "values": lambda kind, rng: synthetic(kind, rng, windows, VALUES_PER_WINDOW),
        "many": lambda kind, rng: synthetic(kind, rng, windows, many),
        "nodes": lambda kind, rng: synthetic_nodes(kind, rng, windows),
        "pairs": lambda kind, rng: synthetic_pairs(kind, rng, windows),
    }
    trace = PlanetLab.find()
    written: dict[str, Sets] = {}
    for shape, make in makers.items():
        streams = {
            kind: make(kind, np.random.default_rng([7, number]))
            for number, kind in enumerate(SYNTHETIC)
        }
        if trace is not None:
            real = {"nodes": trace.nodes, "pairs": trace.pairs}.get(shape, trace.values)
            streams["planetlab"] = real(windows)
        written[shape] = {kind: stream.windows for kind, stream in streams.items()}
        for kind, stream in streams.items():
            stream.write(directory / f"{shape}-{kind}.parquet")
    return written


def _tuples(spark: SparkSession, shape: str, sets: Sets, directory: Path) -> DataFrame:
    """Returns all data sets one after the other; ``unit`` numbers their windows."""
    frames, first = [], 0
    for kind, windows in sets.items():
        frame = spark.read.parquet(str(directory / f"{shape}-{kind}.parquet"))
        unit = (sf.col("window") + first).cast("long")
        frames.append(frame.withColumn("unit", unit).drop("window"))
        first += windows
    whole = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
    return whole.withColumn("seq", sf.monotonically_increasing_id())


def _admitted(tuples: DataFrame, source: str, units: int, rates: tuple[float, ...]) -> DataFrame:
    """Returns each tuple at each rate as a gate leaves it: by a hash, and stamped."""
    rate = sf.element_at(sf.array(*map(sf.lit, rates)), sf.col("step") + 1)
    numbers = sf.sequence(sf.lit(0), sf.lit(len(rates) - 1))
    steps = tuples.withColumn("step", sf.explode(numbers))
    draw = sf.pmod(sf.xxhash64("seq", "step", sf.lit(source)), sf.lit(1_000_000)) / 1_000_000
    return (
        steps.where(draw < rate)
        .withColumn("ts", sf.timestamp_seconds(sf.col("unit") + sf.col("step") * units))
        .withColumn("_weight", 1 / rate)
        .withColumn("_sic", sf.lit(1e-6))
    )


# --- answers --------------------------------------------------------------------------------------


def _curve(
    spark: SparkSession, query: MeasuredQuery, sets: Sets, directory: Path
) -> dict[str, list[ErrorPoint]]:
    units = sum(sets.values())
    tuples = _tuples(spark, query.data, sets, directory)
    sources = {name: Source(f"gated_{name}", "ts") for name in ("src", "memory", "partner")}
    kept: list[dict[int, float]] = []
    for name in sources:
        view = _admitted(tuples, name, units, RATES)
        view.createOrReplaceTempView(name)
        view.createOrReplaceTempView(f"gated_{name}")
        if re.search(rf"\b{name}\b", query.sql):
            kept.append(kept_shares(tuples, view, units))
    rewritten = rewrite(query.sql, sources)
    frame = answer(spark, rewritten, spark.sql(rewritten.plain).schema)
    rows = frame.select(sf.unix_seconds("start").alias("second"), "answer", "_sic").collect()
    told = {row["second"]: row["_sic"] for row in rows}
    sic = {second: float(np.mean([shares[second] for shares in kept])) for second in kept[0]}
    if query.plain:  # as the paper counts; how complete it is, the weighted one has told
        rows = (
            spark.sql(rewritten.plain)
            .select(sf.unix_seconds("start").alias("second"), "answer")
            .collect()
        )
    found = {row["second"]: row["answer"] for row in rows}
    return _points(query, sets, units, found, sic, told)


def kept_shares(tuples: DataFrame, view: DataFrame, units: int) -> dict[int, float]:
    """Returns for each second of a view what is in it of the tuples of its window."""
    arrived = {row["unit"]: row["count"] for row in tuples.groupBy("unit").count().collect()}
    second = (sf.col("unit") + sf.col("step") * units).alias("second")
    kept = {row["second"]: row["count"] for row in view.groupBy(second).count().collect()}
    return {
        unit + step * units: kept.get(unit + step * units, 0) / number
        for unit, number in arrived.items()
        for step in range(len(RATES))
    }


def _points(
    query: MeasuredQuery,
    sets: Sets,
    units: int,
    found: dict[int, Any],
    sic: dict[int, float],
    told: dict[int, float],
) -> dict[str, list[ErrorPoint]]:
    """Returns a point for each rate; the last rate is 1, and has the true answers."""
    curves: dict[str, list[ErrorPoint]] = {}
    first, whole = 0, (len(RATES) - 1) * units
    for kind, windows in sets.items():
        spread = _scale(query, [found.get(whole + first + i) for i in range(windows)])
        curves[kind] = []
        for step, rate in enumerate(RATES):
            seconds = [(step * units + first + i, whole + first + i) for i in range(windows)]
            there = [(now, true) for now, true in seconds if now in found and true in found]
            errors = np.array([query.error(found[now], found[true]) for now, true in there])
            error = errors.std() / spread if query.error is _difference else errors.mean()
            measured, said = (float(np.mean([of[now] for now, _ in there])) for of in (sic, told))
            point = ErrorPoint(rate, measured, said, float(error), len(there))
            curves[kind].append(point)
        first += windows
    return curves


def _scale(query: MeasuredQuery, true: list[Any]) -> float:
    """Covariances of data sets are compared by their own size."""
    if query.error is not _difference:
        return 1.0
    return float(np.mean([abs(answer) for answer in true if answer is not None])) or 1.0


# --- what is told ---------------------------------------------------------------------------------


def rank_correlation(points: list[ErrorPoint]) -> float:
    """Spearman's, between SIC and error; -1 where error falls whenever SIC rises."""
    ranks = [np.argsort(np.argsort([getattr(p, key) for p in points])) for key in ("sic", "error")]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _result(curves: Curves, windows: int, many: int) -> Result:
    result = Result(
        title="SIC and the correctness of results",
        paper="THEMIS, section 7.1, figures 6 and 7; thesis, sections 6.1 to 6.4",
    )
    for query in QUERIES:
        by_set = curves[query.name]
        result.tables.append(
            ResultTable(
                f"{query.name}: {query.measure}",
                ("rate", *(f"{kind}: {what}" for kind in by_set for what in ("SIC", "error"))),
                [
                    (points[0].rate, *(x for point in points for x in (point.sic, point.error)))
                    for points in zip(*by_set.values(), strict=True)
                ],
            )
        )
        lines = [
            Line(kind, [p.sic for p in points], [p.error for p in points])
            for kind, points in by_set.items()
        ]
        slug = query.name.lower().replace(", ", "-")
        result.plots.append(
            Plot(slug, query.name, "measured SIC of the result (share)", query.measure, lines)
        )
        for kind, points in by_set.items():
            _judge(result, query, kind, points)
    _judge_counts(result, curves, many)
    _judge_rows(result, curves)
    result.figures = {
        "windows": windows,
        "curves": {
            name: {kind: [vars(point) for point in points] for kind, points in by_set.items()}
            for name, by_set in curves.items()
        },
    }
    result.notes = [
        "SIC is measured: what was kept of a window's tuples over what arrived, as a mean over the "
        "query's sources and over windows that have a result. A window of which so little is left "
        "that it has none is left out, so that the SIC of the others may be above the rate.",
        f"{windows} windows a rate and data set (PlanetLab's COV: as many pairs of machines as "
        "ran for a whole day, at most that many); on Spark, as batches.",
        "PlanetLab's memory is not in the trace: its TOP-5 asks for CPU alone, and a machine has "
        "one reading a window, so a shed tuple is a missing machine.",
        "COV: tuples of two sources meet by their number, so of the pairs only the square of the "
        "rate is left; deviations are given as a share of the mean covariance.",
    ]
    return result


def _judge(result: Result, query: MeasuredQuery, kind: str, points: list[ErrorPoint]) -> None:
    worst = max(point.error for point in points)
    if worst < SMALLEST_ERROR:
        result.holds[f"{query.name}, {kind}: hardly errs (at most {worst:.4f})"] = True
        return
    found = rank_correlation(points)
    claim = f"{query.name}, {kind}: error falls as SIC rises (rank correlation {found:.2f})"
    result.holds[claim] = found <= -0.9


def _judge_rows(result: Result, curves: Curves) -> None:
    """Judges what rows say of themselves, of windows with a result."""
    for name, by_set in curves.items():
        off = max(abs(p.told - p.sic) for points in by_set.values() for p in points)
        claim = f"{name}: rows say the SIC that was measured, on average over windows"
        result.holds[f"{claim} (off by {off:.3f} at most)"] = off <= MOST_OFF


def _judge_counts(result: Result, curves: Curves, many: int) -> None:
    off = max(
        abs(point.error - (1 - point.sic))
        for points in curves["COUNT, unscaled"].values()
        for point in points
    )
    result.holds[f"unscaled COUNT errs by 1 - SIC (off by {off:.3f} at most)"] = off <= 0.03
    weighted = {kind: points[0].error for kind, points in curves["COUNT, weighted"].items()}
    worst = max(error for kind, error in weighted.items() if kind in SYNTHETIC)
    claim = f"weighted COUNT of {many:,} tuples errs below 5 % at SIC 0.1 ({worst:.3f})"
    result.holds[claim] = worst < 0.05
