"""What is lost behind a gate, from what Spark tells of a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.core.types import Batch, Count, Stratum
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.losses import ENTERED, LEFT, Losses, Lost, gates_in_front
from penstock.spark.progress import Progress

Q = Stratum("q", "s")


def batch(arrived: int, admitted: int) -> Batch:
    return Batch("j", 0, 0.0, 1.0, {Q: Count(arrived, admitted)})


def progress(late: int = 0, *observed: dict[str, dict[str, Any]], joined: int = 0) -> Progress:
    told = {
        "id": "i",
        "runId": "r",
        "batchId": 0,
        "timestamp": "2024-01-01T00:00:00Z",
        "durationMs": {},
        "numInputRows": 0,
        "observedMetrics": {name: m for some in observed for name, m in some.items()},
        "stateOperators": [
            {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": late},
            {"operatorName": "symmetricHashJoin", "numRowsDroppedByWatermark": joined},
            {"operatorName": "dedupe"},
        ],
    }
    return Progress.of(told)


def entered(rows: int, without_time: int = 0, keep: float = 1.0) -> dict[str, dict[str, Any]]:
    return {f"{ENTERED}0": {"rows": rows, "without_time": without_time, "keep": keep}}


def left(kept: int | None, arrived: int | None) -> dict[str, dict[str, Any]]:
    return {f"{LEFT}0": {"kept": kept, "arrived": arrived}}


def test_where_nothing_is_lost_all_of_it_reaches_the_result() -> None:
    """Law 3: exactly."""
    one = batch(100, 40)
    reached, in_time, lost = Losses().after(one, one, progress())
    assert (reached[Q], in_time, lost) == (Count(100, 40), 1.0, Lost())


def test_late_rows_count_as_tuples_where_nobody_tells_how_many_rows_there_were() -> None:
    one = batch(100, 40)
    reached, in_time, lost = Losses().after(one, one, progress(late=10))
    assert (reached[Q], in_time, lost) == (Count(100, 30), 0.75, Lost(late=10.0))


def test_late_rows_are_a_share_of_the_rows_that_entered() -> None:
    """Rows have become ten times as many between the gate and the windows."""
    one = batch(100, 40)
    told = progress(50, entered(400, without_time=50))
    assert Losses().after(one, one, told)[2] == Lost(late=10.0)


def test_a_late_row_is_a_share_of_a_tuple_that_sliding_windows_copied() -> None:
    """Law 2: of ten rows of which three are a tuple, and two rows that are tuples."""
    one = batch(100, 40)
    losses = Losses({"stateStoreSave": 3})
    assert losses.after(one, one, progress(30, joined=2))[2].late == pytest.approx(12.0)


def test_windows_keep_what_was_asked_for_until_the_first_has_told() -> None:
    losses, one, guarded = Losses(), batch(100, 50), batch(100, 40)
    assert losses.after(one, guarded, progress(0, entered(40, keep=0.5)))[2] == Lost(
        10.0, 0.0, 20.0
    )
    told = progress(0, entered(40, keep=0.5), left(30, 40))
    assert losses.after(one, guarded, told)[2] == Lost(10.0, 0.0, 10.0)
    quiet = progress(0, entered(40, keep=0.5), left(None, None))
    reached, _, _ = losses.after(one, guarded, quiet)
    assert reached.admitted.tolist() == pytest.approx([30.0])


def test_only_the_gates_in_front_of_a_place_bear_what_is_lost_there() -> None:
    """Late rows of an operator behind one of two gates; windows behind the other."""
    a, b = (Gate(name, Keys("q", name, (), ()), 1) for name in "ab")
    below = {"dedupe": {"a"}, f"{ENTERED}0": {"b", "more"}, "join": {"a", "b"}, "none": set()}
    places = gates_in_front(below, [a, b])
    assert places == {"dedupe": (a.keys,), f"{ENTERED}0": (b.keys,)}
    counts = {Stratum("q", "a"): Count(100, 40), Stratum("q", "b"): Count(1000, 400)}
    one = Batch("j", 0, 0.0, 1.0, counts)
    told = replace(progress(0, entered(400, keep=0.5)), late={"dedupe": 10})
    reached, in_time, lost = Losses(places=places).after(one, one, told)
    assert reached.admitted.tolist() == pytest.approx([30.0, 200.0])
    assert in_time == 430 / 440
    assert list(lost) == pytest.approx([0.0, 10.0, 200.0])


def test_a_tuple_of_several_window_functions_reaches_the_mean_of_them() -> None:
    one, told = batch(100, 40), {**entered(40, keep=0.5)}
    told[f"{ENTERED}1"] = {"rows": 40, "without_time": 0, "keep": 0.1}
    reached, _, _ = Losses().after(one, one, progress(0, told))
    assert reached.admitted.tolist() == pytest.approx([12.0])
