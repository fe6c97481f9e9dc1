"""Windows of rows: against lists that are cut up by hand, without Spark and on it."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from penstock import PenstockError, count_windows
from penstock import functions as pf
from penstock.core.types import Stratum
from penstock.jobs.check import check
from penstock.jobs.load import load
from penstock.jobs.start import open_site, start
from penstock.spark import count_windows as module
from penstock.spark.count_windows import NUMBER, PACKED, CountProcessor
from penstock.spark.gate.columns import SIC
from penstock.windows.counted import CountWindows
from tests.spark.support import Rig, file_stream, is_admitted, plan, write_batches

Weights = list[list[float]]
"""Of each micro-batch, the weights of its tuples."""


class Cell:
    """What Spark keeps for a processor."""

    def __init__(self) -> None:
        self.value: Any = None
        self.values: list[Any] = []

    def get(self) -> Any:
        return self.value if self.value is not None else iter(self.values)

    def update(self, value: Any) -> None:
        self.value = value

    def clear(self) -> None:
        self.values = []

    def appendValue(self, value: Any) -> None:
        self.values.append(value)


class Handle:
    def __init__(self) -> None:
        self.held, self.chunks = Cell(), Cell()
        self.held.get = lambda: self.held.value  # type: ignore[method-assign]

    def getValueState(self, *_: str) -> Cell:
        return self.held

    def getListState(self, *_: str) -> Cell:
        return self.chunks


def run(windows: CountWindows, batches: Weights) -> list[pd.DataFrame]:
    """What each batch emits of tuples that are called after their number."""
    processor, made, number = CountProcessor(windows), [], 0
    processor.init(Handle())  # type: ignore[arg-type]
    for weights in batches:
        names = range(number, number + len(weights))
        number += len(weights)
        rows = pd.DataFrame(
            {
                "_0": "",
                "_1": [str(n) for n in names],
                "_2": [n * 1_000_000 for n in names],
                "_3": weights,
                "_4": [1.0 / (1 + n % 3) for n in names],
                "_5": 0,
            }
        )
        shuffled = rows.sample(frac=1.0, random_state=number)
        found = list(processor.handleInputRows(("",), iter([shuffled]), None))  # type: ignore[arg-type]
        made.append(together(found))
    return made


def together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    there = [part for part in parts if len(part)]
    return pd.concat(there) if there else pd.DataFrame(columns=[NUMBER, PACKED, SIC])


def by_hand(windows: CountWindows, batches: Weights) -> dict[int, dict[str, Fraction]]:
    """The tuples of each window that is full, with their shares of their SIC."""
    came, places = Fraction(0), []
    for weight in (Fraction(w) for weights in batches for w in weights):
        places.append(came + weight / 2)
        came += weight
    known = range(math.ceil(came / windows.slide) + 1)
    inside = {
        k: [
            n
            for n, p in enumerate(places)
            if k * windows.slide <= p < k * windows.slide + windows.rows
        ]
        for k in known
    }
    times = {n: sum(n in tuples for tuples in inside.values()) for n in range(len(places))}
    return {
        k: {str(n): Fraction(1.0 / (1 + n % 3)) / times[n] for n in tuples}
        for k, tuples in inside.items()
        if tuples and came >= k * windows.slide + windows.rows - Fraction(1, 2)
    }


weights = st.lists(
    st.lists(st.sampled_from([1.0, 1.0 + 2.0**-52, 1.5, 4.0, 37.0]), min_size=1, max_size=9),
    min_size=1,
    max_size=6,
)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 8)).map(
    lambda both: CountWindows(max(both), min(both))
)


@pytest.fixture(autouse=True)
def batch_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_batch", lambda: 0)


@settings(max_examples=60)
@given(shapes, weights)
def test_law_2_windows_hold_what_they_do_by_hand_and_share_the_sic(
    windows: CountWindows, batches: Weights
) -> None:
    """However a stream is cut into batches, each window is told once, and whole."""
    emitted = together(run(windows, batches))
    wanted = by_hand(windows, batches)
    found = {
        int(str(k)): {str(name): float(sic) for name, sic in zip(w[PACKED], w[SIC], strict=True)}
        for k, w in emitted.groupby(NUMBER)
    }
    assert len(emitted) == sum(map(len, wanted.values()))
    assert found.keys() == wanted.keys()
    for number, tuples in wanted.items():
        assert found[number] == pytest.approx({n: float(share) for n, share in tuples.items()})


@given(st.integers(1, 8), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_law_6_without_shedding_a_window_is_the_next_rows(rows: int, sizes: list[int]) -> None:
    made = run(CountWindows(rows, rows), [[1.0] * size for size in sizes])
    names = [str(n) for n in range(sum(sizes))]
    full = len(names) // rows
    emitted = together(made)
    assert list(emitted[PACKED]) == names[: full * rows]
    assert list(emitted[NUMBER]) == [n // rows for n in range(full * rows)]
    told = np.cumsum([len(batch) for batch in made])  # as soon as they are full
    assert told.tolist() == [came // rows * rows for came in np.cumsum(sizes).tolist()]


def test_windows_are_as_long_however_much_is_shed() -> None:
    """A tenth is kept: a window of 1,000 rows has 100, and spans 1,000 of what arrived."""
    kept = np.flatnonzero(np.random.default_rng(7).random(100_000) < 0.1)
    batches = np.array_split(np.full(kept.size, 10.0), 50)
    emitted = together(run(CountWindows(1000, 1000), [batch.tolist() for batch in batches]))
    arrived = pd.Series(kept[emitted[PACKED].astype(int)])
    first = arrived.groupby(emitted[NUMBER].to_numpy()).min()
    assert emitted.groupby(NUMBER).size().eq(100).all()
    assert len(first) == kept.size // 100
    assert np.diff(first).mean() == pytest.approx(1000, rel=0.03)


# --- on Spark -------------------------------------------------------------------------------------

JOB = """\
latency: 1h
sources:
  s:
    format: files
    path: in
    options: {maxFilesPerTrigger: 1}
    id: n
    columns: {at: timestamp_seconds(t)}
    time: at
queries:
  whole:
    sql: SELECT window.number, window.start, sum(v) AS total, count(*) AS c FROM s[Rows 7]
    sink: {format: memory}
  parts:
    sql: |
      SELECT k, window.number, array_sort(collect_list(n)) AS ns, count(*) AS c
      FROM s[Partition By k Rows 6 Slide 2] WHERE v > 2 GROUP BY k
    sink: {format: memory}
"""


def test_windows_of_rows_in_sql_are_those_of_a_list(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are in the order of batches, and within a batch in that of their times."""
    random = np.random.default_rng(3)
    sizes = (20, 1, 40, 22)
    batches = [
        {
            "t": random.permutation(size).tolist(),
            "k": [("a", "b", None)[i] for i in random.integers(0, 3, size)],
            "v": random.integers(0, 9, size).tolist(),
        }
        for size in sizes
    ]
    write_batches(tmp_path / "in", batches)
    (tmp_path / "job.yaml").write_text(JOB)
    loaded = load(tmp_path / "job.yaml")
    schemas = check(spark, loaded)
    assert schemas["parts"].fieldNames() == ["k", "number", "ns", "c"]
    with open_site(spark, loaded) as site:
        queries = start(spark, loaded, site, schemas, tmp_path / "checkpoints")
        for query in queries.values():
            query.processAllAvailable()
        report = {one["id"]: one for one in site.report().to_dict()["queries"]}
    assert report["parts"]["arrived"] == sum(sizes)
    ordered: list[tuple[int, int, str | None, int]] = []  # t, n, k, v
    for number, batch in enumerate(batches):
        first = sum(sizes[:number])
        rows = zip(
            batch["t"], range(first, first + sizes[number]), batch["k"], batch["v"], strict=True
        )
        ordered += sorted(rows)
    cut = [ordered[at : at + 7] for at in range(0, len(ordered) - 6, 7)]
    whole = sorted(spark.table("whole").collect())
    assert [(r["number"], r["total"], r["c"]) for r in whole] == [
        (k, sum(v for *_, v in rows), 7) for k, rows in enumerate(cut)
    ]
    assert [r["start"].timestamp() for r in whole] == [min(t for t, *_ in rows) for rows in cut]
    wanted = {}
    for key in ("a", "b", None):
        mine = [(n, v) for _, n, k, v in ordered if k == key]
        for number, at in enumerate(range(0, len(mine) - 5, 2)):
            some = sorted(n for n, v in mine[at : at + 6] if v > 2)
            if some:
                wanted[key, number] = (some, len(some))
    found = {(r["k"], r["number"]): (r["ns"], r["c"]) for r in spark.table("parts").collect()}
    assert found == wanted
    assert {r["_sic"] for r in spark.table("parts").collect()} == {1.0}


def test_behind_a_gate_windows_end_by_weights(spark: SparkSession, tmp_path: Path) -> None:
    """Half of the stream is shed: a window has what its weights come to, and says what it kept."""
    batches = [{"t": list(range(60))} for _ in range(4)]
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    half = {Stratum("q", "s"): 0.5}
    rig = Rig(spark, stream, lambda tick: (plan(tick + 1, half), True))
    told = (
        count_windows(rig.frame, 40, 20)
        .groupBy("window")
        .agg(
            sf.collect_list("n").alias("ns"),
            pf.count("*").alias("c"),
            pf.sic().alias("share"),
            sf.sum("_sic").alias("came"),
        )
    )
    found = rig.run(frame=told.select("window.number", "ns", "c", "share", "came"))
    # within a batch, rows without a time come in the order of a hash
    kept = {
        batch: {n for n in range(batch * 60, batch * 60 + 60) if is_admitted(n, 0.5)}
        for batch in range(4)
    }
    came = 2 * sum(map(len, kept.values()))
    assert len(found) == (came - 40) // 20 + 1
    for row in found:
        assert row["c"] == 2 * len(row["ns"]) == 40
        assert row["share"] == pytest.approx(0.5)
        # each tuple is worth 1; the first ten are in one window, all others in two
        assert row["came"] == pytest.approx(15.0 if row["number"] == 0 else 10.0)
    tumbling = [n for row in found if row["number"] % 2 == 0 for n in row["ns"]]
    assert len(set(tumbling)) == len(tumbling)
    assert kept[0] | kept[1] <= set(tumbling) <= set().union(*kept.values())


def test_values_come_through_as_they_are_also_over_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What pandas would change: null among whole numbers, decimals, microseconds, nested values."""
    kinds = (
        "n bigint, d decimal(20,3), x double, f float, s string, b binary, ok boolean, day date, "
        "ts timestamp, l timestamp_ntz, a array<bigint>, m map<string,int>, "
        "r struct<u:int,w:string>"
    )
    moment = datetime.datetime(2026, 11, 19, 3, 4, 5, 678901)
    day = moment.date()
    rows: list[tuple[Any, ...]] = [
        (2**62 + n, Decimal("1.125") * n, 0.1 * n, 0.5, f'a"{n}', b"\x00\xff", n % 2 == 0)
        for n in range(6)
    ]
    rows = [
        (*row, day, moment, moment, [n, None], {"k": n}, (n, None)) for n, row in enumerate(rows)
    ]
    rows += [
        (None,) * 13,
        (1, None, math.inf, math.nan, "", b"", None, None, None, None, [], {}, (None, "é")),
    ]
    whole = spark.createDataFrame(rows, kinds)
    folder = tmp_path / "in"
    found: list[Row] = []

    def collect(batch: DataFrame, _: int) -> None:
        found.extend(batch.collect())

    for part in ("n % 2 = 0", "n IS NULL OR n % 2 = 1"):
        whole.where(part).coalesce(1).write.mode("append").parquet(str(folder))
        stream = spark.readStream.schema(whole.schema).parquet(str(folder))
        windows = count_windows(stream, 4, time="ts")
        writer = windows.writeStream.foreachBatch(collect)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(90)
        if part == "n % 2 = 0":
            assert not found, "three rows are no window of four"
    assert [row["window"]["number"] for row in found] == [0] * 4 + [1] * 4

    def plain(row: Row) -> str:
        return str({name: row[name] for name in whole.columns})

    assert sorted(map(plain, found)) == sorted(map(plain, whole.collect()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": 0}, "rows must be a whole number from 1, such as 100; got 0"),
        ({"rows": 5, "slide": 6}, "slide must be at most rows, such as 20 of 100; got 6 and 5"),
        (
            {"rows": 5, "time": "value"},
            "time must be a column of timestamps; got 'value', a bigint",
        ),
        ({"rows": 5, "partition": "x"}, "partition: the stream has no column 'x'"),
    ],
)
def test_mistakes_are_told(spark: SparkSession, wrong: dict[str, Any], message: str) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(PenstockError, match=message):
        count_windows(stream, **wrong)


def test_a_watermark_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    with pytest.raises(PenstockError, match="stream must have no watermark"):
        count_windows(stream, 5)
    with pytest.raises(PenstockError, match="count_windows needs a streaming DataFrame"):
        count_windows(spark.range(3), 5)
