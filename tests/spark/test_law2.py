"""Law 2 on Spark: the rows of a result have the SIC that came in, and so has the query.

Rows and queries are compared with counts by hand, which put each tuple into its windows one by one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import Site
from penstock.spark.engine import Engine
from penstock.sql import rewrite
from penstock.sql.relations import Relation
from tests.spark.support import file_stream, is_admitted, write_batches
from tests.spark.test_sic import HalfOfAll
from tests.sql.cases import SOURCES

LAST_SECOND = 12
SOME, NONE = "v > 4", "v > 99"
"""Conditions that some tuples meet, and that none does."""


@dataclass(frozen=True)
class Windows:
    """Windows of a length, one every slide, in seconds."""

    length: int
    slide: int

    def begins(self, second: int) -> list[int]:
        """When the windows begin that a moment falls into."""
        every = range(-self.length * self.slide, LAST_SECOND + 1, self.slide)
        return [begin for begin in every if begin <= second < begin + self.length]

    @property
    def cql(self) -> str:
        return f"[Range {self.length} sec Slide {self.slide} sec]"


TUMBLING, SLIDING, UNEVEN = Windows(2, 2), Windows(6, 2), Windows(5, 2)


@dataclass(frozen=True)
class Stamped:
    """A tuple behind a gate."""

    second: int
    key: int
    value: int
    weight: float
    sic: float

    @property
    def marks(self) -> tuple[Fraction, Fraction]:
        """What came, and what is missing."""
        return Fraction(self.sic), Fraction(self.sic) * (Fraction(self.weight) - 1)


stamped = st.builds(
    Stamped,
    second=st.integers(0, LAST_SECOND),
    key=st.integers(0, 2),
    value=st.integers(0, 9),
    weight=st.sampled_from([1.0, 1.5, 4.0]),
    sic=st.sampled_from([0.25, 0.125, 0.01]),
)
streams = st.lists(stamped, min_size=1, max_size=12)
Units = dict[tuple[int, int], tuple[float, float]]
"""Of each row, shown or not: its SIC and its missing SIC, by its window's begin and its key."""


def found(spark: SparkSession, query: str, **views: list[Stamped]) -> Units:
    """What a rewritten query finds in these streams; ``seq`` numbers the tuples of each."""
    for name, stream in views.items():
        rows = [(seq, t.second, t.key, t.value, t.weight, t.sic) for seq, t in enumerate(stream)]
        frame = spark.createDataFrame(
            rows, "seq long, at long, k int, v int, _weight double, _sic double"
        )
        timed = frame.withColumn("ts", sf.timestamp_seconds("at"))
        timed.createOrReplaceTempView(f"g_{name}")
    units = spark.sql(rewrite(query, SOURCES).sql).coalesce(1)
    marks = units.select(sf.unix_seconds("start"), "k", "_sic", "_missing").collect()
    return {(row[0], row[1]): (row[2], row[3]) for row in marks}


def by_hand(windows: Windows, copies: list[tuple[int, int, Stamped]]) -> Units:
    """Adds up copies of tuples, each (begin, key, tuple) with an even share of the tuple's SIC."""
    sums: dict[tuple[int, int], list[Fraction]] = {}
    for begin, key, each in copies:
        share = [mark / len(windows.begins(each.second)) for mark in each.marks]
        before = sums.get((begin, key), [Fraction(0)] * 2)
        sums[begin, key] = [a + b for a, b in zip(before, share, strict=True)]
    return {unit: (float(sic), float(missing)) for unit, (sic, missing) in sums.items()}


def check(units: Units, wanted: Units) -> None:
    assert units.keys() == wanted.keys()
    for unit, marks in wanted.items():
        assert units[unit] == pytest.approx(marks), unit


def check_aggregate(
    spark: SparkSession, windows: Windows, condition: str, stream: list[Stamped]
) -> None:
    """Rows are as by hand, and all of them together have what came in."""
    query = (
        f"SELECT window.start, k, count(*) AS c FROM s{windows.cql} WHERE {condition} GROUP BY k"
    )
    units = found(spark, query, s=stream)
    check(
        units, by_hand(windows, [(b, t.key, t) for t in stream for b in windows.begins(t.second)])
    )
    for place in range(2):
        came_in = sum(t.marks[place] for t in stream)
        assert sum(marks[place] for marks in units.values()) == pytest.approx(float(came_in))


@pytest.mark.parametrize(
    ("windows", "condition"),
    [(TUMBLING, SOME), (SLIDING, SOME), (UNEVEN, SOME), (SLIDING, NONE)],
    ids=["tumbling", "sliding", "uneven", "nothing left"],
)
def test_law_2_windows_and_conditions_conserve_the_sic(
    spark: SparkSession, windows: Windows, condition: str
) -> None:
    @settings(max_examples=5)
    @given(streams)
    def conserved(stream: list[Stamped]) -> None:
        check_aggregate(spark, windows, condition, stream)

    conserved()


@pytest.mark.parametrize("windows", [TUMBLING, UNEVEN], ids=["tumbling", "uneven"])
def test_law_2_a_join_in_windows_has_the_sic_of_the_tuples_that_met(
    spark: SparkSession, windows: Windows
) -> None:
    """A tuple that meets its partner in some of its windows has their share of its SIC there."""

    @settings(max_examples=5)
    @given(streams, streams)
    def conserved(left: list[Stamped], right: list[Stamped]) -> None:
        query = (
            f"SELECT window.start, s.k, count(*) AS c FROM s{windows.cql}, m{windows.cql} "
            "WHERE s.seq = m.seq GROUP BY s.k"
        )
        copies = [
            (begin, one.key, each)
            for one, other in zip(left, right, strict=False)
            for begin in {*windows.begins(one.second)} & {*windows.begins(other.second)}
            for each in (one, other)
        ]
        check(found(spark, query, s=left, m=right), by_hand(windows, copies))

    conserved()


def sessions(stream: list[Stamped]) -> list[tuple[int, int, Stamped]]:
    """Puts tuples less than two seconds apart into one session of their key."""
    placed: list[tuple[int, int, Stamped]] = []
    for each in sorted(stream, key=lambda t: (t.key, t.second)):
        begin, key, last = placed[-1] if placed else (0, -1, each)
        goes_on = key == each.key and each.second - last.second < 2
        placed.append((begin if goes_on else each.second, each.key, each))
    return placed


@pytest.mark.parametrize("condition", ["TRUE", SOME], ids=["all", "some"])
def test_law_2_sessions_conserve_the_sic_of_the_tuples_that_are_in_them(
    spark: SparkSession, condition: str
) -> None:
    @settings(max_examples=5)
    @given(streams)
    def conserved(stream: list[Stamped]) -> None:
        query = (
            f"SELECT session_window.start, k, count(*) AS c FROM s WHERE {condition} "
            "GROUP BY session_window(ts, '1500 milliseconds'), k"
        )
        inside = [t for t in stream if condition != SOME or t.value > 4]
        once = Windows(1, 1)  # a tuple is in one session
        check(found(spark, query, s=stream), by_hand(once, sessions(inside)))

    conserved()


def test_law_2_fails_where_sliding_windows_do_not_share_a_tuple(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the properties above would notice."""
    stream = [Stamped(7, 0, 5, 1.5, 0.25)]
    check_aggregate(spark, SLIDING, SOME, stream)
    monkeypatch.setattr(Relation, "divided", lambda self, _: self)
    check_aggregate(spark, TUMBLING, SOME, stream)
    for windows in (SLIDING, UNEVEN):
        with pytest.raises(AssertionError):
            check_aggregate(spark, windows, SOME, stream)


# --- the query's SIC, as its site tells it --------------------------------------------------------

EARLY, ALL_ALONG = [LAST_SECOND - 1] * 4, list(range(LAST_SECOND))
BATCHES = [EARLY, ALL_ALONG, ALL_ALONG, ALL_ALONG]
"""The seconds of the tuples of each batch; from the third on, the first makes many too late."""
MOMENTS = [second for seconds in BATCHES for second in seconds]
ADMITTED = [n for n in range(len(MOMENTS)) if is_admitted(n, 0.5)]


def told_and_counted(spark: SparkSession, windows: Windows, folder: Path) -> tuple[float, float]:
    """A query's SIC as its site tells it, and as its windows have it; half is shed.

    Each tuple is a group of its own, so that Spark's count of late groups is exact.
    """
    path = write_batches(folder, [{"at": seconds} for seconds in BATCHES])
    with Site(
        spark,
        interval="100ms",
        latency="60s",
        stw="10 minutes",
        controller=HalfOfAll,
        rehearse=False,
    ) as site:
        timed = site.gate(file_stream(spark, path), query="q", source="s", id="n").select(
            "n", sf.timestamp_seconds("at").alias("ts")
        )
        window = sf.window("ts", f"{windows.length} seconds", f"{windows.slide} seconds")
        grouped = timed.withWatermark("ts", "0 seconds").groupBy(window, "n").count()
        writer = grouped.writeStream.format("memory").outputMode("update")
        query = site.start(writer.trigger(availableNow=True), name="law_2")
        assert query.awaitTermination(60)
        report = site.report()["q"]
        reached = Counter(row.n for row in spark.table("law_2").collect())
    assert report.admitted == len(ADMITTED)
    kept = sum(Fraction(reached[n], len(windows.begins(MOMENTS[n]))) for n in ADMITTED)
    assert report.sic_now is not None
    return report.sic_now, float(kept) / len(MOMENTS)


@pytest.mark.parametrize("windows", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
def test_law_2_a_querys_sic_is_what_its_windows_have(
    spark: SparkSession, tmp_path: Path, windows: Windows
) -> None:
    """Also of a tuple that is late for some of its windows only."""
    told, counted = told_and_counted(spark, windows, tmp_path / "in")
    assert told == pytest.approx(counted)
    assert 0.2 < counted / (len(ADMITTED) / len(MOMENTS)) < 0.8  # of the rest, all was late


def test_law_2_fails_where_a_late_window_counts_as_a_late_tuple(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "copies_in", lambda *_: {})
    told, counted = told_and_counted(spark, SLIDING, tmp_path / "in")
    assert told < 0.9 * counted


def test_law_2_a_filter_and_a_join_that_leave_nothing_have_the_sic_that_came(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A result without a row is as complete as what was admitted for it."""
    rows = {"a": 50, "b": 30}
    stream = {
        name: file_stream(spark, write_batches(tmp_path / name, [{"k": [name] * size}] * 2))
        for name, size in rows.items()
    }
    with Site(
        spark, interval="100ms", latency="60s", stw="10 minutes", controller=HalfOfAll
    ) as site:
        a, b = (site.gate(stream[name], query="join", source=name, id="n") for name in rows)
        filtered = site.gate(stream["a"], query="filter", source="a", id="n").where("k = 'z'")
        joined = a.join(b.select(sf.col("k").alias("other")), sf.col("k") == sf.col("other"))
        for name, frame in (("filtered", filtered), ("joined", joined)):
            writer = frame.writeStream.format("memory").trigger(availableNow=True)
            assert site.start(writer, name=name).awaitTermination(60)
            assert spark.table(name).count() == 0
        sic = site.sic()
    kept = {
        name: sum(is_admitted(n, 0.5, name) for n in range(2 * size)) / (2 * size)
        for name, size in rows.items()
    }
    assert sic["filter"] == pytest.approx(kept["a"])
    assert sic["join"] == pytest.approx((kept["a"] + kept["b"]) / 2)
