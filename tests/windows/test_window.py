"""What a window knows while it fills, on a clock moved by hand."""

import numpy as np
import pytest

from penstock.core.types import OTHER_GROUPS, Count, Stratum
from penstock.windows import window
from penstock.windows.concept import Concept
from penstock.windows.window import Window

A, B, C = (Stratum("q", "s", name) for name in "abc")


def filled(concept: Concept, batches: list[tuple[float, dict[Stratum, Count]]]) -> Window:
    state = Window.of(concept)
    for clock, counts in batches:
        state = state.record(clock, counts)
    return state


def test_half_a_window_tells_of_the_other_half() -> None:
    state = filled(Concept(60), [(15, {A: Count(30, 3)}), (30, {A: Count(30, 3), B: Count(60, 6)})])
    filling, shares = state.filling((A, B))
    assert filling.arrived.tolist() == [60, 60]
    assert filling.admitted.tolist() == [6, 6]
    assert state.rest() == pytest.approx(120, rel=0.01)
    assert shares[0] == shares[1]


def test_a_new_window_starts_from_the_last_one_but_believes_itself() -> None:
    """Of b nothing came in the new window's first batch: it is as good as never seen."""
    state = filled(Concept(60), [(50, {A: Count(30, 30), B: Count(60, 60)})]).at(61)
    before, shares = state.filling((A, B))
    assert before.arrived.tolist() == [0, 0]
    assert shares[1] == pytest.approx(2 * shares[0])
    after, _ = state.record(62, {A: Count(5, 5)}).filling((A, B))
    assert after.rest[1] == 0
    assert after.share[1] > 1000 * after.share[0]


def test_drift_is_told_from_one_pane_to_the_next() -> None:
    """Of a and b, three to one, only a is left, and c has come: one to one."""
    state = filled(
        Concept(60),
        [(30, {A: Count(30, 3), B: Count(10, 1)}), (90, {A: Count(5, 5)}), (100, {C: Count(5, 5)})],
    )
    assert state.drift is None
    later = state.at(121).drift
    assert later is not None
    assert (later.groups, later.overlap) == (2, 0.5)
    assert later.distance == pytest.approx((0.25 + 0.25 + 0.5) / 2)


def test_after_a_pause_nobody_knows_of_a_drift() -> None:
    state = filled(Concept(60), [(30, {A: Count(30, 3)}), (90, {A: Count(5, 5)})])
    known = state.at(121).drift
    assert known is not None
    assert (known.overlap, known.distance) == (1.0, 0.0)
    assert state.at(400).record(400, {B: Count(5, 5)}).at(421).drift is None


def test_a_pause_of_a_whole_window_leaves_nothing() -> None:
    state = filled(Concept(60), [(50, {A: Count(30, 30)})]).at(200)
    assert state.groups == ()
    assert state.rest() == 0


def test_one_tuple_from_the_far_future_costs_one_window() -> None:
    state = filled(
        Concept(60),
        [(10, {A: Count(5, 5)}), (1e9, {A: Count(5, 5)}), (20, {B: Count(7, 7)}), (90, {})],
    )
    assert state.clock == 90
    assert state.panes.slot == 1
    late = filled(Concept(60), [(70, {A: Count(5, 5)}), (50, {A: Count(1, 1)})])
    assert late.clock == 70  # somewhat late is not back


def test_panes_slide() -> None:
    state = filled(
        Concept(60, slide=20),
        [(10, {A: Count(5, 5)}), (30, {A: Count(7, 1)}), (50, {B: Count(1, 1)})],
    )
    assert state.filling((A, B))[0].arrived.tolist() == [12, 1]
    assert state.at(70).filling((A, B))[0].arrived.tolist() == [7, 1]


def test_the_volume_follows_the_last_window() -> None:
    """Nine tenths came in the first half, so after half a window one tenth is left."""
    day = [(25.0, {A: Count(900, 900)}), (55.0, {A: Count(100, 100)})]
    state = filled(Concept(60), [*day, (85.0, {A: Count(450, 450)})])
    assert state.rest() == pytest.approx(55, abs=6)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MOST_GROUPS", 100)
    state = Window.of(Concept(60))
    for number in range(20):
        many = {Stratum("q", "s", f"{number}-{i}"): Count(1, 1) for i in range(50)}
        state = state.record(
            number, {A: Count(100, 10), **many, Stratum("q", "s", OTHER_GROUPS): Count(9, 9)}
        )
    assert len(state.groups) <= 100
    assert state.filling((A,))[0].arrived.tolist() == [2000]
    assert state.volume.sum() == 20 * 159


def test_what_thinning_cost_is_remembered() -> None:
    state = Window.of(Concept(60)).record(10, {A: Count(100, 20), B: Count(5, 5)}, rates={A: 0.2})
    assert state.lost((A, B)).tolist() == [400, 0]
    assert state.at(61).lost((A, B)).tolist() == [0, 0]


def test_values_merge_as_if_they_came_at_once() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(10, 3, 60)
    parts = Window.of(Concept(60))
    for part in np.split(x, 6):
        parts = parts.record(10, {C: Count(10, 10)}, {C: part})
    number, mean, squares = parts.moments.of((C,))
    assert (number[0], mean[0]) == (60, pytest.approx(x.mean()))
    assert squares[0] == pytest.approx(((x - x.mean()) ** 2).sum())
