"""Sessions and joins of ``process_windows``: their concept, against lists cut up by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import PenstockError, process_windows
from penstock.spark.session_processor import SessionProcessor
from penstock.windows.sampling import ByConcept, ByJoin, WindowConcept, shedder
from tests.spark.support import file_stream, write_batches

GAP = 10.0
Batches = list[list[float]]


class Cell:
    """What Spark keeps for a processor."""

    def __init__(self) -> None:
        self.value: Any = None
        self.map: dict[Any, Any] = {}

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None

    def getValue(self, key: Any) -> Any:
        return self.map[key]

    def updateValue(self, key: Any, value: Any) -> None:
        self.map[key] = value

    def removeKey(self, key: Any) -> None:
        del self.map[key]


class State:
    """A handle and a clock: timers go off when the watermark passes them."""

    def __init__(self) -> None:
        self.value, self.map, self.timers, self.now = Cell(), Cell(), set[int](), 0

    def getValueState(self, *_: str) -> Cell:
        return self.value

    def getMapState(self, *_: str) -> Cell:
        return self.map

    def registerTimer(self, at: int) -> None:
        self.timers.add(at)

    def getExpiryTimeInMs(self) -> int:
        return self.now


def counted(rows: pd.DataFrame) -> dict[str, Any]:
    return {"numbers": sorted(rows["x"].tolist()), "standing": float(rows["_weight"].sum())}


def run(batches: Batches, most: int | None = None) -> tuple[list[Any], State]:
    """The sessions of one owner; the watermark is the least time that is still to come."""
    processor: Any = SessionProcessor(
        counted, shedder("none", 1.0), GAP, GAP, most, ("x",), ("numbers", "standing")
    )
    state, found, number = State(), [], 0
    processor.init(state)
    for at, times in enumerate(batches):
        numbers = list(range(number, number + len(times)))
        number += len(times)
        rows = pd.DataFrame({"x": numbers, "t": times, "g": "a", "s": 0, "o": "me"})
        assert not list(processor.handleInputRows((0, "me"), iter([rows]), None))
        left = [time for later in batches[at + 1 :] for time in later]
        watermark = min(left) * 1000 if left else 1e9
        for timer in sorted(t for t in state.timers if t <= watermark):
            state.timers.remove(timer)
            state.now = timer
            for part in processor.handleExpiredTimer((0, "me"), None, state):
                found += part[part["_is_result"]].to_dict("records")
    return found, state


def by_hand(batches: Batches) -> list[list[int]]:
    """The numbers of each session, by the order of times."""
    ordered = sorted((time, n) for n, time in enumerate(time for b in batches for time in b))
    sessions: list[list[int]] = []
    for place, (time, number) in enumerate(ordered):
        if place and time - ordered[place - 1][0] < GAP:
            sessions[-1].append(number)
        else:
            sessions.append([number])
    return [sorted(session) for session in sessions]


times = st.lists(
    st.lists(st.integers(0, 120).map(float), min_size=1, max_size=6), min_size=1, max_size=5
)


@settings(max_examples=60)
@given(times)
def test_sessions_are_those_of_a_list_however_it_comes(batches: Batches) -> None:
    """Late tuples join sessions; nothing is left in the state when the last one has ended."""
    found, state = run(batches)
    assert sorted(row["numbers"] for row in found) == sorted(by_hand(batches))
    assert state.value.value is None
    assert not state.map.map
    moment = [time for b in batches for time in b]
    for row in found:
        mine = [moment[n] for n in row["numbers"]]
        assert row["start"].timestamp() == min(mine)
        assert row["end"].timestamp() == max(mine) + GAP
        assert row["session"] == "me"


def test_what_is_stored_of_a_session_is_bounded_and_counts_whole() -> None:
    batches = [[float(at)] * 40 for at in range(10)]
    found, _ = run(batches, most=100)
    (row,) = found
    assert row["kept"] <= 100
    assert row["arrived"] == 400
    assert row["standing"] == pytest.approx(400)


def test_the_concept_of_a_session_gives_each_group_its_share(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each user has two sessions of three pages, one of which is rare; a tenth is kept."""
    pages = ["often"] * 90 + ["seldom"] * 9 + ["once"]
    random = np.random.default_rng(5)
    batch = [
        (user, page, start + seconds)
        for user in ("ann", "bob")
        for start in (1000.0, 1500.0)
        for page, seconds in zip(pages, random.integers(0, 100, len(pages)), strict=True)
    ]
    column = [list(each) for each in zip(*batch, strict=True)]
    last: dict[str, list[Any]] = {"user": ["end"], "page": ["end"], "t": [5000.0]}
    first: dict[str, list[Any]] = {"user": column[0], "page": column[1], "t": column[2]}
    stream = file_stream(spark, write_batches(tmp_path / "in", [first, last]))
    timed = stream.withColumn("at", sf.timestamp_seconds("t")).withWatermark("at", "0 seconds")
    how: dict[str, Any] = {"time": "at", "groups": "page", "session": "100s", "of": "user"}
    out = process_windows(timed, standing, "standing double", keep=0.1, **how)
    query = out.writeStream.format("memory").queryName("sessions").trigger(availableNow=True)
    started = query.start()
    assert started.awaitTermination(90)
    found = spark.table("sessions").toPandas()
    assert Counter(found["session"]) == {"ann": 6, "bob": 6}
    for (user, _), rows in found.groupby(["session", "start"]):
        mine = [t for u, _, t in batch if u == user]
        starts = {min(mine), min(t for t in mine if t >= 1500)}
        begins = rows["start"].iloc[0].timestamp()
        assert begins in starts
        assert set(rows["group"]) == {"often", "seldom", "once"}
        standing_for = dict(zip(rows["group"], rows["standing"], strict=True))
        assert standing_for == pytest.approx({"often": 90, "seldom": 9, "once": 1})
        assert (rows["arrived"] == 100).all()
        assert rows["kept"].between(8, 12).all()


def standing(rows: pd.DataFrame) -> dict[str, float]:
    return {"standing": float(rows["_weight"].sum())}


def pairs(rows: pd.DataFrame) -> dict[str, float]:
    sides = rows.groupby("side")["_weight"].sum()
    return {"pairs": float(sides["left"] * sides["right"])}


def test_the_concept_of_a_join_spends_all_on_keys_that_meet(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The joined pairs of each key; keys of one stream only get nothing and are not counted."""
    left = {f"k{n}": 20 * (n + 1) for n in range(8)}
    right = {f"k{n}": 30 for n in range(4, 12)}
    rows = [
        (key, side)
        for side, keys in (("left", left), ("right", right))
        for key in keys
        for _ in range(keys[key])
    ]
    column = [list(each) for each in zip(*rows, strict=True)]
    batch: dict[str, list[Any]] = {
        "key": column[0],
        "side": column[1],
        "t": [600.0 + n % 50 for n in range(len(rows))],
    }
    last: dict[str, list[Any]] = {"key": ["k1"], "side": ["left"], "t": [5000.0]}
    stream = file_stream(spark, write_batches(tmp_path / "in", [batch, last]))
    timed = stream.withColumn("at", sf.timestamp_seconds("t")).withWatermark("at", "0 seconds")
    how: dict[str, Any] = {"time": "at", "groups": "key", "window": "60s", "join": "side"}
    out = process_windows(timed, pairs, "pairs double", keep=0.2, shards=2, **how)
    query = out.writeStream.format("memory").queryName("joined").trigger(availableNow=True)
    assert query.start().awaitTermination(90)
    found = spark.table("joined").toPandas()
    met = left.keys() & right.keys()
    assert dict(zip(found["group"], found["pairs"], strict=True)) == pytest.approx(
        {key: left[key] * right[key] for key in met}
    )
    shards = found.drop_duplicates(["kept", "arrived"])
    assert shards["arrived"].sum() == sum(left[key] + right[key] for key in met)
    assert shards["kept"].sum() == pytest.approx(0.2 * len(rows), rel=0.1)


sizes = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=9)


@given(sizes, st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from(["equal", "proportional"]))
def test_a_join_gives_its_budget_to_keys_on_both_streams(
    keys: list[tuple[int, int]], keep: float, by: str
) -> None:
    named = [
        (f"k{n}\x1f{side}", size)
        for n, key in enumerate(keys)
        for side, size in zip("lr", key, strict=True)
        if size
    ]
    if not named:
        return
    names, came = zip(*named, strict=True)
    concept = WindowConcept(np.array(came, dtype=np.float64), names=np.array(names))
    goal = ByJoin(keep, by).goal(concept)
    both = np.array([min(keys[int(name[1 : name.index("\x1f")])]) > 0 for name in names])
    assert (goal[~both] == 0).all()
    budget = keep * sum(came)
    wanted = ByConcept(1.0, by).of_budget(concept.sizes[both], budget)
    assert goal[both] == pytest.approx(wanted)
    assert goal.sum() <= max(budget, both.sum()) + 1e-6 or by == "proportional"
    assert (goal <= concept.sizes).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "window must be a duration, such as '30m'; or give a session"),
        ({"window": "1m", "session": "1m"}, "session must be given instead of window and slide"),
        ({"window": "1m", "of": "value"}, "of must be given with session"),
        ({"session": "1m", "of": "who"}, "of: the stream has no column 'who'"),
        ({"window": "1m", "join": "value"}, "join must be given with groups"),
        ({"session": "0s"}, "session must be longer than 0"),
    ],
)
def test_mistakes_are_told(spark: SparkSession, wrong: dict[str, Any], message: str) -> None:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    with pytest.raises(PenstockError, match=message):
        process_windows(stream, standing, "standing double", time="timestamp", **wrong)
