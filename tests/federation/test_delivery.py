"""Of replicas' results each window is delivered once, and of those that live the best."""

from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.federation.delivery import CAME, PATIENCE_INTERVALS, Delivery

INTERVAL = 1.0
pq: Any = import_module("pyarrow.parquet")


class Replica:
    """A replica whose clock is moved by hand, and that is asked to look by hand."""

    def __init__(self, home: Path, number: int, of: int = 2) -> None:
        self.now = 0.0
        self.delivery = Delivery(
            home / "candidates", home / "out", number, of, INTERVAL, "ts", lambda: self.now
        )

    def look_after(self, intervals: float) -> None:
        self.now += intervals * INTERVAL
        self.delivery.look()


def result(spark: SparkSession, window: int, sic: float, value: int) -> Any:
    row = [(window, value, sic)]
    frame = spark.createDataFrame(row, f"at LONG, value INT, {CAME} DOUBLE")
    return frame.selectExpr("timestamp_seconds(at) AS ts", "value", CAME)


def delivered(home: Path) -> list[int]:
    files = sorted((home / "out").glob("*.parquet"))
    return [row["value"] for file in files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize("order", list(permutations([0, 1])))
def test_the_better_of_two_is_delivered(
    spark: SparkSession, tmp_path: Path, order: tuple[int, int]
) -> None:
    replicas = [Replica(tmp_path, 0), Replica(tmp_path, 1)]
    replicas[0].delivery(result(spark, 0, 0.5, 0), 0)
    replicas[1].delivery(result(spark, 0, 0.9, 1), 0)
    for number in order * 2:
        replicas[number].look_after(0.1)
    assert delivered(tmp_path) == [1]
    assert list((tmp_path / "candidates").glob("*.parquet")) == []


def test_a_replica_alone_delivers_after_its_patience(spark: SparkSession, tmp_path: Path) -> None:
    alone = Replica(tmp_path, 1)
    alone.delivery(result(spark, 0, 0.5, 1), 0)
    alone.look_after(0.0)
    alone.look_after(PATIENCE_INTERVALS - 0.5)
    assert delivered(tmp_path) == []
    alone.look_after(1.0)
    assert delivered(tmp_path) == [1]


def test_a_better_candidate_whose_replica_died_is_not_waited_for_for_ever(
    spark: SparkSession, tmp_path: Path
) -> None:
    dead, alive = Replica(tmp_path, 0), Replica(tmp_path, 1)
    dead.delivery(result(spark, 0, 0.9, 0), 0)
    alive.delivery(result(spark, 0, 0.5, 1), 0)
    alive.look_after(0.0)
    alive.look_after(1.5 * PATIENCE_INTERVALS)
    assert delivered(tmp_path) == []
    alive.look_after(PATIENCE_INTERVALS)
    assert delivered(tmp_path) == [1]
    dead.look_after(0.1)  # it is back
    assert delivered(tmp_path) == [1]


def test_a_window_that_comes_again_after_its_delivery_is_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    alone = Replica(tmp_path, 0, of=1)
    alone.delivery(result(spark, 0, 0.5, 1), 0)
    alone.look_after(0.1)
    alone.delivery(result(spark, 0, 0.9, 2), 1)
    alone.look_after(9.0)
    assert delivered(tmp_path) == [1]


moves = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["write", "look", "die"]), st.floats(0.0, 5.0)),
    min_size=10,
    max_size=40,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_whatever_happens_a_window_is_delivered_once_if_anybody_lives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, float]]
) -> None:
    home = tmp_path_factory.mktemp("delivery")
    replicas = [Replica(home, number, of=3) for number in range(3)]
    table = import_module("pyarrow").table({"value": [1]})
    wrote = False
    for number, what, seconds in steps:
        if what == "write":
            replicas[number].delivery._write("w", seconds / 5, table)
            wrote = True
        elif what == "look":
            replicas[number].look_after(seconds)
        else:
            replicas[number] = Replica(home, number, of=3)
    for _ in range(3):
        for replica in replicas:
            replica.look_after(2.5 * PATIENCE_INTERVALS)
    assert len(delivered(home)) == int(wrote)
    assert list((home / "candidates").glob("*.parquet")) == []
