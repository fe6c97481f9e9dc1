"""The guard on Spark: a function on each tuple, what it costs, and what is shed in front of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas import Series
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from penstock.core.types import Stratum
from penstock.errors import PenstockError
from penstock.spark.site import Site
from tests.spark.support import file_stream, wait_until, write_batches

pa: Any = import_module("pyarrow")
COSTS = {"slow": 0.04, "fast": 0.002}


def work(row: Mapping[str, Any]) -> float:
    """Waits for an answer, by the tuple's kind; a busy machine makes that hardly longer."""
    time.sleep({"slow": 0.04, "fast": 0.002}[row["kind"]])
    return float(row["n"]) * 2


def doubled(row: Mapping[str, Any]) -> float:
    return float(row["n"]) * 2


def inverse(row: Mapping[str, Any]) -> float:
    return 1.0 / float(row["n"])


def halved(row: Mapping[str, Any]) -> object:
    """As a float, as one of NumPy's, or as a decimal number."""
    kinds = (float, np.float32, Decimal)
    return kinds[row["n"] % 3](row["n"]) / 2


def never_a_thousand(row: Mapping[str, Any]) -> float:
    return 0.0 if row["n"] != 1000 else float(next(iter([])))


@pytest.fixture
def site(spark: SparkSession) -> Iterator[Site]:
    with Site(spark, interval="200ms") as site:
        yield site


def _stream(spark: SparkSession, folder: Path, batches: int, rows: int) -> DataFrame:
    kinds = ["slow" if n % 4 == 0 else "fast" for n in range(rows)]
    return file_stream(spark, write_batches(folder, [{"kind": kinds}] * batches))


def _plausible(measured: Mapping[str, float]) -> None:
    """A busy machine makes work take longer, never less, and what is slow stays slow."""
    assert all(measured[kind] >= 0.99 * cost for kind, cost in COSTS.items())
    assert measured["slow"] > 2 * measured["fast"]


def _all(spark: SparkSession, frame: DataFrame, name: str) -> list[Row]:
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    return spark.table(name).collect()


def test_without_overload_it_is_the_function(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    stream = _stream(spark, tmp_path, 2, 50)
    guarded = site.guard(stream, doubled, key="kind", wait="1h", inputs=["n"])
    rows = _all(spark, guarded, "guard_all")
    assert sorted((row["n"], row["result"]) for row in rows) == [(n, 2.0 * n) for n in range(100)]
    (report,) = site.report().guards
    assert (report["arrived"], report["kept"], report["shed"], report["failed"]) == (100, 100, 0, 0)


def test_it_learns_over_batches_and_partitions_and_holds_the_wait(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    """400 tuples are over two seconds for each of two tasks; the average wait is to be 300 ms."""
    stream = _stream(spark, tmp_path, 3, 400).repartition(2)
    guarded = site.guard(stream, work, key="kind", wait="300ms", inputs=["kind", "n"])
    rows = _all(spark, guarded, "guard_shed")
    (report,) = site.report().guards
    assert report["arrived"] == 1200
    assert report["kept"] == len(rows)
    assert 0.1 < report["shed_share"] < 1.0
    assert report["mean_wait_ms"] < 400
    guard = next(iter(site.guards))
    keys = spark.createDataFrame([(kind,) for kind in COSTS], ["kind"])
    prints = keys.select("kind", sf.xxhash64("kind").alias("print")).collect()
    _plausible({row["kind"]: guard.cost_of(row["print"]) for row in prints})
    kept = {kind: sum(row["kind"] == kind for row in rows) for kind in COSTS}
    assert kept["slow"] / 300 < kept["fast"] / 900  # the dear ones went first


def test_an_absolute_check_holds_for_every_tuple(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    """400 tuples take more than four seconds; none is to begin later than 1 s after the task."""

    def began(row: Mapping[str, Any]) -> float:
        moment = time.monotonic()
        work(row)
        return moment

    stream = _stream(spark, tmp_path, 1, 400).repartition(1)
    guarded = site.guard(stream, began, key="kind", wait="1s", check="absolute")
    moments = [row["result"] for row in _all(spark, guarded, "guard_absolute")]
    (report,) = site.report().guards
    assert (report["kept"], report["shed"]) == (len(moments), 400 - len(moments))
    assert max(moments) - min(moments) < 2.5  # a busy machine may come between check and call
    with pytest.raises(PenstockError, match=r"check must be one of .* got 'mean'"):
        site.guard(stream, began, key="kind", wait="1s", check="mean")  # type: ignore[arg-type]


def test_a_tuple_without_an_arrival_has_just_come(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    long_ago = sf.when(sf.col("n") % 2 == 0, sf.lit("2001-01-01").cast("timestamp"))
    stream = _stream(spark, tmp_path, 1, 40).withColumn("at", long_ago)
    guarded = site.guard(stream, doubled, key="kind", wait="30s", arrival="at", inputs=["n"])
    rows = _all(spark, guarded, "guard_arrival")
    assert {row["n"] for row in rows if row["n"] % 2} == set(range(1, 40, 2))
    (report,) = site.report().guards
    assert report["shed"] >= 19  # those that have waited for decades, but for one trial


def test_an_error_fails_the_query(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    guarded = site.guard(_stream(spark, tmp_path, 1, 3), inverse, key="kind", wait="1h")
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        _all(spark, guarded, "guard_fail")


def test_an_error_is_skipped_and_counted(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    stream = _stream(spark, tmp_path, 1, 5)
    guarded = site.guard(
        stream, inverse, key="kind", wait="1h", on_error="skip", output="inverse double"
    )
    rows = _all(spark, guarded, "guard_skip")
    assert sorted(row["inverse"] for row in rows) == [1 / 4, 1 / 3, 1 / 2, 1.0]
    (report,) = site.report().guards
    assert (report["kept"], report["failed"]) == (4, 1)
    assert report["last_error"] == "ZeroDivisionError: float division by zero"


def test_costs_reach_the_controller_by_stratum(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    gated = site.gate(_stream(spark, tmp_path, 3, 40), query="q", source="s", strata="kind", id="n")
    guarded = site.guard(gated, work, key="kind", wait="1h", inputs=["kind", "n"])
    query = site.start(guarded.writeStream.format("noop"), name="costs")
    deadline = time.monotonic() + 60
    while query.lastProgress is None or query.lastProgress["batchId"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    query.stop()
    site.report()
    told = {s: cost for batch in site.recent for s, cost in batch.costs.items()}
    _plausible({kind: told[Stratum("q", "s", kind)] for kind in COSTS})


def test_bad_use_is_told(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    stream = _stream(spark, tmp_path, 1, 3)
    wrong: list[tuple[str, Callable[[], DataFrame]]] = [
        ("key must be at least one column", lambda: site.guard(stream, doubled, key=[], wait="1s")),
        (
            "must be a plain Python function of a row",
            lambda: site.guard(stream, None, key="kind", wait="1s"),  # type: ignore[arg-type]
        ),
        (
            "inputs must be a list of names",
            lambda: site.guard(stream, doubled, key="kind", wait="1s", inputs="kind"),
        ),
        (
            "output must be a column that the stream does not have.* got 'n'",
            lambda: site.guard(stream, doubled, key="kind", wait="1s", output="n double"),
        ),
        (
            "output must be a list .*such as 'score double'; got 'result dubble'",
            lambda: site.guard(stream, doubled, key="kind", wait="1s", output="result dubble"),
        ),
        (
            "arrival must be a timestamp.* got a bigint",
            lambda: site.guard(stream, doubled, key="kind", wait="1s", arrival="n"),
        ),
        ("did you mean 'kind'", lambda: site.guard(stream, doubled, key="kid", wait="1s")),
        ("wait", lambda: site.guard(stream, doubled, key="kind", wait="soon")),
        ("output must be one column", lambda: _guard(site, stream, output="a int, b int")),
        ("'fail' or 'skip'", lambda: _guard(site, stream, on_error="ignore")),
        ("inputs", lambda: _guard(site, stream, inputs=["m"])),
        ("streaming", lambda: _guard(site, spark.range(3), key="id")),
        ("streaming", lambda: _guard(site, None)),
        ("inputs must be a list of names", lambda: _guard(site, stream, inputs=5)),
        (
            "output must be a list of names .*got 5",
            lambda: _guard(site, stream, output=5),
        ),
        ("since an answer can be missing", lambda: _guard(site, stream, output="r int not null")),
        ("got 'KIND'", lambda: _guard(site, stream, output="KIND double")),
        ("arrival must be one column", lambda: _guard(site, stream, arrival=["n"])),
        ("a plain Python function", lambda: _guard(site, stream, function=sf.udf(lambda row: row))),
        ("return the value itself", lambda: _guard(site, stream, function=later)),
        ("return the value itself", lambda: _guard(site, stream, function=Several())),
        ("rename 'a.b'", lambda: _guard(site, stream.withColumn("a.b", sf.lit(1)))),
        ("rename 'n'", lambda: _guard(site, stream.select("*", "n"))),
        ("key: .*MAP", lambda: _guard(site, stream, key=sf.create_map("kind", "n"))),
        (
            "the guard's own; rename your column",
            lambda: _guard(site, stream.withColumnRenamed("n", "_penstock_key")),
        ),
    ]
    for message, call in wrong:
        with pytest.raises(PenstockError, match=message):
            call()


def _guard(site: Site, stream: Any, **options: Any) -> DataFrame:
    function = options.pop("function", doubled)
    return site.guard(stream, function, **{"key": "kind", "wait": "1s", **options})


async def later(row: Mapping[str, Any]) -> float:
    return doubled(row)


class Several:
    def __call__(self, row: Mapping[str, Any]) -> Iterator[float]:
        yield doubled(row)


def test_costs_of_several_guards_add_up(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    gated = site.gate(_stream(spark, tmp_path, 3, 40), query="q", source="s", strata="kind", id="n")
    once = site.guard(gated, work, key="kind", wait="1h", output="once double")
    twice = site.guard(once, work, key="kind", wait="1h", output="twice double")
    query = site.start(twice.writeStream.format("noop"), name="adds")
    wait_until(lambda: (query.lastProgress or {"batchId": -1})["batchId"] >= 2)
    query.stop()
    site.report()
    told = {s: cost for batch in site.recent for s, cost in batch.costs.items()}
    _plausible({kind: told[Stratum("q", "s", kind)] / 2 for kind in COSTS})


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("r struct<a:int>", {"a": 1.7}),
        ("r struct<a:int>", {"b": 1}),
        ("r struct<a:int,b:int>", (1, 2, 3)),
        ("r array<int>", [1, 1.7]),
        ("r map<string,int>", {"a": 0.5}),
        ("r float", 1e300),
        ("r struct<a:int,b:int>", Row(b=2, a=1)),
        ("r date", datetime(2024, 1, 1, 23, 59)),
        ("r struct<d:date>", {"d": 5}),
        ("r timestamp_ntz", datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))),
        ("r array<string>", "ab"),
        ("r array<double>", b"ab"),
        ("r array<double>", Series([1.0, 2.0], index=[5, 6])),
        ("r array<double>", Series([1.0, 2.0], index=[1, 0])),
    ],
)
def test_nothing_of_an_answer_is_lost_in_silence(
    spark: SparkSession, site: Site, tmp_path: Path, output: str, answer: object
) -> None:
    stream = _stream(spark, tmp_path, 1, 3)
    guarded = site.guard(
        stream, lambda _: answer, key="kind", wait="1h", output=output, on_error="skip"
    )
    assert _all(spark, guarded, f"guard_lost_{len(str(answer))}") == []
    (report,) = site.report().guards
    assert (report["kept"], report["failed"]) == (0, 3)
    assert report["last_error"]


def test_nested_answers_arrive(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    whole = {
        "a": 1,
        "b": [1, None],
        "c": {"x": 2},
        "d": date(2024, 5, 6),
        "t": datetime(2024, 5, 6, 7),
    }
    answers = [whole, {"a": 1}, None]
    output = "r struct<a:int,b:array<int>,c:map<string,int>,d:date,t:timestamp_ntz>"
    guarded = site.guard(
        _stream(spark, tmp_path, 1, 3),
        lambda row: answers[row["n"]],
        key="kind",
        wait="1h",
        output=output,
    )
    found = {row["n"]: row["r"] and row["r"].asDict() for row in _all(spark, guarded, "nested")}
    assert found == {0: whole, 1: {**dict.fromkeys(whole), "a": 1}, 2: None}


def failing(row: Mapping[str, Any]) -> float:
    """Three tuples of four."""
    return 1.0 / float(row["n"] % 4 == 0)


CHANGES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "nothing": lambda stream: stream,
    "columns gone": lambda stream: stream.select("n", "_sic", "_weight"),
    "column changed": lambda stream: stream.withColumn("kind", sf.upper("kind")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_guard_loses_is_in_the_sic(
    spark: SparkSession, site: Site, tmp_path: Path, change: str
) -> None:
    """Also where nobody can tell of which stratum it was."""
    stream = _stream(spark, tmp_path, 3, 40)
    gated = CHANGES[change](site.gate(stream, query="q", source="s", strata="kind", id="n"))
    guarded = site.guard(gated, failing, key="n", wait="1h", inputs=["n"], on_error="skip")
    _run(site, guarded, change)
    assert site.sic()["q"] == pytest.approx(0.25, abs=0.02)


def test_tuples_that_multiply_before_the_guard_lose_a_share(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    stream = _stream(spark, tmp_path, 3, 40)
    gated = site.gate(stream, query="q", source="s", strata="kind", id="n")
    more = gated.withColumn("copy", sf.explode(sf.sequence(sf.lit(1), sf.lit(10))))
    guarded = site.guard(more, failing, key="n", wait="1h", inputs=["n"], on_error="skip")
    _run(site, guarded, "multiplied")
    assert site.sic()["q"] == pytest.approx(0.25, abs=0.02)


def test_what_a_guard_behind_two_gates_loses_is_in_the_sic(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    both = [
        site.gate(
            _stream(spark, tmp_path / source, 3, 40),
            query="q",
            source=source,
            strata="kind",
            id="n",
        )
        for source in ("s", "t")
    ]
    united = both[0].unionByName(both[1])
    guarded = site.guard(united, failing, key="n", wait="1h", inputs=["n"], on_error="skip")
    _run(site, guarded, "two gates")
    assert site.sic()["q"] == pytest.approx(0.25, abs=0.02)


def _run(site: Site, guarded: DataFrame, name: str) -> None:
    query = site.start(guarded.writeStream.format("noop"), name=name)
    wait_until(lambda: (query.lastProgress or {"batchId": -1})["batchId"] >= 2)
    query.stop()
    site.report()


def test_a_first_call_that_takes_long_costs_no_later_batch(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    """A model is loaded when it is first needed. That is no overload once it is over."""
    stream = _stream(spark, tmp_path, 6, 20).coalesce(1)
    guarded = site.guard(stream, lazily, key="kind", wait="1s", inputs=["n"])
    rows = _all(spark, guarded, "guard_lazy")
    batches = {row["n"] // 20 for row in rows}
    kept = [sum(row["n"] // 20 == batch for row in rows) for batch in sorted(batches)]
    assert kept[0] < 20
    assert kept[1:] == [20] * 5


def lazily(row: Mapping[str, Any]) -> float:
    time.sleep(3.0 if row["n"] == 0 else 0.001)
    return 0.0


def test_tuples_that_take_half_of_the_wait_are_kept_while_there_is_time(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    stream = _stream(spark, tmp_path, 8, 2).coalesce(1)
    guarded = site.guard(stream, half_a_second, key="kind", wait="1s", inputs=["n"])
    assert len(_all(spark, guarded, "guard_half")) == 16


def half_a_second(row: Mapping[str, Any]) -> float:
    del row
    time.sleep(0.5)
    return 0.0


def test_a_source_whose_clock_is_ahead_earns_nothing(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    tomorrow = sf.current_timestamp() + sf.expr("INTERVAL 1 DAY")
    stream = _stream(spark, tmp_path, 1, 10).withColumn("at", tomorrow)
    guarded = site.guard(stream, doubled, key="kind", wait="1h", arrival="at")
    assert len(_all(spark, guarded, "guard_ahead")) == 10
    (report,) = site.report().guards
    assert report["mean_wait_ms"] >= 0.0


def test_a_stopped_site_guards_nothing(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(spark, interval="200ms")
    site.stop()
    with pytest.raises(PenstockError, match="this site was stopped"):
        site.guard(_stream(spark, tmp_path, 1, 3), doubled, key="kind", wait="1s")


def test_a_gate_of_another_site_is_told(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    with Site(spark, interval="200ms") as other:
        gated = other.gate(_stream(spark, tmp_path, 1, 3), query="q")
    with pytest.raises(PenstockError, match="a gate of another site"):
        site.guard(gated, doubled, key="kind", wait="1s")


def test_an_answer_of_another_type_is_told(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    guarded = site.guard(_stream(spark, tmp_path, 1, 3), lambda _: "x", key="kind", wait="1h")
    with pytest.raises(StreamingQueryException, match="answer must be of type double"):
        _all(spark, guarded, "guard_type")


def test_a_fraction_is_not_cut_off(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    stream = _stream(spark, tmp_path, 1, 3)
    guarded = site.guard(stream, halved, key="kind", wait="1h", output="half int")
    with pytest.raises(
        StreamingQueryException, match=r"of type int32 for the column 'half'.*would become 0"
    ):
        _all(spark, guarded, "guard_fraction")


def test_answers_of_another_type_are_skipped_and_counted(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    gated = site.gate(_stream(spark, tmp_path, 1, 6), query="q", source="s", strata="kind", id="n")
    guarded = site.guard(gated, halved, key="kind", wait="1h", output="half int", on_error="skip")
    rows = _all(spark, guarded, "guard_skip_type")
    assert sorted((row["n"], row["half"]) for row in rows) == [(0, 0), (2, 1), (4, 2)]
    (report,) = site.report().guards
    assert (report["function"], report["kept"], report["failed"]) == ("halved", 3, 3)


def test_a_function_that_stops_an_iteration_fails_as_any_other(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    """And does not end the work on a block in silence."""
    stream = _stream(spark, tmp_path, 1, 2000)
    guarded = site.guard(stream, never_a_thousand, key="kind", wait="1h")
    with pytest.raises(StreamingQueryException, match="StopIteration"):
        _all(spark, guarded, "guard_stop")


def test_empty_tasks_neither_ask_nor_tell(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    """Else they would take the trials that others need, where all tuples are late."""
    long_ago = sf.lit("2001-01-01").cast("timestamp")
    stream = _stream(spark, tmp_path, 1, 40).withColumn("at", long_ago).repartition(8, sf.lit(1))
    guarded = site.guard(stream, doubled, key="kind", wait="1h", arrival="at", inputs=["n"])
    assert len(_all(spark, guarded, "guard_empty")) == 1


def test_what_another_query_learnt_of_the_gate_is_not_told(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    """A query is stopped, and another begins at its gate, with a function that is quicker."""
    gated = site.gate(_stream(spark, tmp_path, 3, 40), query="q", source="s", strata="kind", id="n")
    _run(site, site.guard(gated, work, key="kind", wait="1h", inputs=["kind", "n"]), "before")
    told = _told(site)
    site.recent.clear()
    _run(site, site.guard(gated, doubled, key="kind", wait="1h", inputs=["n"]), "after")
    assert _told(site)["slow"] < 0.5 * told["slow"]


def _told(site: Site) -> dict[str, float]:
    return {s.group: cost for batch in site.recent for s, cost in batch.costs.items()}
