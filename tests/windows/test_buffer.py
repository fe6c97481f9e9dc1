"""The window manager's buffer: which tuples of which window are processed."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.windows.buffer import Buffer, window_ends, window_panes
from penstock.windows.sampling import (
    ByAccuracy,
    ByConcept,
    Evenly,
    Nothing,
    WindowConcept,
    shed,
    shedder,
)


def with_tuples(buffer: Buffer, times: list[float], keys: str, seed: int = 0) -> Buffer:
    columns = {"x": np.array(times)}
    return buffer.add(np.array(times), np.array(list(keys)), columns, (seed,))


def test_a_window_has_its_panes() -> None:
    assert window_ends([0, 1, 6], 60, 20, done=20) == [40, 60, 80, 140, 160, 180]
    assert list(window_panes(60, 60, 20)) == [0, 1, 2]
    buffer = with_tuples(Buffer(60, 20), [5, 25, 130], "aab")
    staged = buffer.take(60, Nothing())
    assert staged.columns["x"].tolist() == [5, 25]
    assert staged.weight.tolist() == [1, 1]
    late = with_tuples(Buffer(60, 20, done=60), [15, 25], "aa")
    assert [chunk.pane for chunk in late.chunks] == [1]


def test_every_group_gets_its_quota() -> None:
    rng = np.random.default_rng(0)
    keys = np.repeat(["a", "b", "c"], [2, 100, 10_000])
    buffer = Buffer(60, 60)
    for number, part in enumerate(np.array_split(rng.permutation(keys), 20)):
        buffer = buffer.add(np.full(part.size, 1.0), part, {"x": part}, (number,))
    staged = buffer.take(60, ByConcept(0.02))
    kept = dict(zip(*np.unique(staged.columns["x"], return_counts=True), strict=True))
    assert kept["a"] == 2
    assert kept["b"] == pytest.approx(100, abs=1)
    assert kept["c"] == pytest.approx(0.02 * 10_102 - 102, abs=1)
    assert np.bincount(staged.group, staged.weight) == pytest.approx([2, 100, 10_000])
    assert Evenly(0.02).choose(
        WindowConcept(np.ones(1)), np.zeros(1, dtype=np.int64), np.array([0.5])
    ).tolist() == [False]


def test_proportional_quotas_keep_the_budget_and_every_group() -> None:
    """Fifty groups of one tuple and one of a thousand: a tenth is 105 tuples, 50 of them alone."""
    keys = np.array([f"alone-{n}" for n in range(50)] + ["many"] * 1000)
    buffer = Buffer(60, 60).add(np.zeros(keys.size), keys, {"x": keys}, (0,))
    kept, counts = np.unique(
        buffer.take(60, shedder("concept", 0.1, "proportional")).columns["x"], return_counts=True
    )
    assert kept.size == 51
    assert dict(zip(kept.tolist(), counts.tolist(), strict=True))["many"] == 55


def test_spread_decides_how_many_tuples_a_mean_takes() -> None:
    """Against the textbook's sizes from the whole window, though tuples come in parts and panes."""
    rng = np.random.default_rng(1)
    spreads = {"steady": 2.0, "wild": 60.0}
    x = {name: rng.normal(100.0, spread, 5000) for name, spread in spreads.items()}
    buffer = Buffer(60, 20, value="x")
    for number in range(30):
        for name, values in x.items():
            part = values[number::30].copy()
            part[0] = np.nan if number == 0 else part[0]
            columns, time = {"x": part}, np.full(part.size, number * 2.0)
            buffer = buffer.add(time, np.full(part.size, name), columns, (number,))
    staged = buffer.take(60, ByAccuracy(0.03))
    for name, values in x.items():
        known = np.delete(values, 0)
        wanted = (1.959964 * known.std(ddof=1) / known.mean() / 0.03) ** 2
        kept = staged.columns["x"][staged.names[staged.group] == name]
        assert kept.size == pytest.approx(max(wanted / (1 + wanted / 5000), 30), abs=2)
        assert np.nanmean(kept) == pytest.approx(known.mean(), rel=0.045)
    assert np.bincount(staged.group, staged.weight) == pytest.approx([5000, 5000])


def test_the_error_is_met_as_often_as_was_asked_for() -> None:
    rng = np.random.default_rng(2)
    met = []
    for window in range(200):
        x = rng.gamma(2.0, 10.0, 3000)
        buffer = Buffer(60, 60, value="x").add(
            np.zeros(x.size), np.full(x.size, "g"), {"x": x}, (window,)
        )
        kept = buffer.take(60, ByAccuracy(0.05)).columns["x"]
        assert kept.size < 1000
        met.append(abs(kept.mean() / x.mean() - 1) <= 0.05)
    assert 0.9 <= np.mean(met) <= 0.99


def test_memory_is_bounded_and_the_sample_is_fair() -> None:
    rng = np.random.default_rng(3)
    buffer, x = Buffer(60, 60, most=1000), rng.normal(100, 10, 20_000)
    for number, part in enumerate(np.array_split(x, 40)):
        keys = np.where(np.arange(part.size) == 0, "rare", "common")
        buffer = buffer.add(np.full(part.size, 1.0), keys, {"x": part}, (number,))
        assert len(buffer) <= 1000
    staged = buffer.take(60, ByConcept(0.02))
    assert staged.arrived == 20_000
    common = staged.columns["x"][staged.names[staged.group] == "common"]
    assert common.mean() == pytest.approx(100, abs=4 * 10 / np.sqrt(common.size))
    assert (staged.names[staged.group] == "rare").sum() == 40


def test_a_sample_has_the_size_asked_for_and_is_even() -> None:
    """Each of twenty tuples is among the five as often as any other."""
    rng, seen = np.random.default_rng(5), np.zeros(20)
    group = np.zeros(20, dtype=np.int64)
    for _ in range(4000):
        kept = shed(group, np.array([5.0]), rng.random(20))
        assert kept.sum() == 5
        seen += kept
    assert seen == pytest.approx(np.full(20, 1000), abs=5 * np.sqrt(4000 * 0.25 * 0.75))


def test_unknown_ways_of_shedding_are_refused() -> None:
    with pytest.raises(PenstockError, match="concept, uniform, none"):
        shedder("random", 0.1)
    with pytest.raises(PenstockError, match="share of the window"):
        shedder("concept", 3)


def test_panes_are_of_whole_microseconds() -> None:
    """A tenth of a second is no binary fraction, and yet begins its own pane."""
    moments = 1_700_000_000 + np.arange(2000) / 10
    groups = np.full(moments.size, "g")
    buffer = Buffer(0.1, 0.1).add(moments, groups, {"x": moments}, (0,))
    assert [chunk.pane for chunk in buffer.chunks] == [17_000_000_000 + n for n in range(2000)]
    assert all(chunk.key.size == 1 for chunk in buffer.chunks)
