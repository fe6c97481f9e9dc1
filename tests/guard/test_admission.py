"""The admission in virtual time: the function moves the clock itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.core.types import Floats, Ints
from penstock.guard.admission import Admission
from penstock.guard.guard_plan import GuardPlan
from penstock.guard.hashes import Words, fingerprints
from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport

COSTS = np.array([0.001, 0.005, 0.025])


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _made(rows: Sequence[int] | Ints) -> Callable[[Ints], list[int]]:
    """Rows that there are already."""
    return lambda places: np.asarray(rows)[places].tolist()


def _batches(
    seconds: float,
    overload: float,
    seed: int,
    costs: Floats,
    threshold: float,
    noise: float = 0.0,
    known_costs: bool = False,
) -> tuple[list[TaskReport], GuardPlan]:
    """Micro-batches as Spark runs them: each takes what arrived while the one before it ran.

    Tuples of a key differ in cost by ``noise``, and with ``known_costs`` an
    admission knows the mean of each key.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    plan = GuardPlan(threshold, sketch=Sketch(0.01))
    gap = float(costs.mean()) / overload
    reports: list[TaskReport] = []
    arrival, end = clock.now, clock.now + seconds

    def function(row: int) -> int:
        clock.now += costs[row] * rng.lognormal(-0.5 * noise**2, noise)
        return row * 10

    known = dict(zip(fingerprints(np.arange(costs.size)).tolist(), costs, strict=True))

    def means(keys: Words) -> Floats:
        return np.array([known[key] for key in keys.tolist()])

    while clock.now < end:
        count = max(int((clock.now - arrival) / gap), 1)
        arrived = np.asarray(arrival + gap * np.arange(count), dtype=np.float64)
        clock.now = max(clock.now, float(arrived[-1]))
        arrival += gap * count
        rows = rng.integers(0, costs.size, count)
        admission = Admission(function, plan, clock, costs=means if known_costs else None)
        places, results = admission.admit(_made(rows), fingerprints(rows), arrived, rows)
        assert results == (rows[places] * 10).tolist()
        assert admission.report.arrived == count
        reports.append(admission.report)
        plan = plan.after(admission.report, 1)
    return reports, plan


@pytest.mark.parametrize("overload", [1.0, 1.5, 4.0])
def test_the_average_wait_comes_to_the_threshold(overload: float) -> None:
    reports, _ = _batches(60.0, overload, 1, COSTS, 0.2)
    late = reports[len(reports) // 4 :]
    assert sum(t.waited for t in late) / sum(t.admitted for t in late) <= 0.2 * 1.05
    assert sum(t.admitted for t in late) > 0


def test_nothing_is_shed_without_overload() -> None:
    reports, _ = _batches(30.0, 0.5, 2, COSTS, 0.2)
    assert sum(t.shed for t in reports[2:]) == 0


def test_the_dear_ones_go_first() -> None:
    """At overload 2 the classes of 1 and 5 ms fit in whole, so they should nearly all stay."""
    reports, _ = _batches(60.0, 2.0, 3, COSTS, 0.2)
    kept: dict[int, int] = {}
    for report in reports[len(reports) // 4 :]:
        for stratum, (count, _) in report.timed.items():
            kept[stratum] = kept.get(stratum, 0) + count
    assert kept[0] == pytest.approx(kept[1], rel=0.05)
    assert kept[2] < 0.5 * kept[0]


@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0], ids=["fast", "usual", "slow"])
def test_it_sheds_little_more_than_the_dearest(scale: float) -> None:
    """Of what has to go, so few tuples as can be; whatever the scale of costs and threshold."""
    threshold = max(0.3, 60 * scale * COSTS[2] / 5)
    reports, _ = _batches(60.0 * max(scale, 0.25), 2.0, 5, scale * COSTS, threshold)
    late = reports[len(reports) // 3 :]
    arrived, kept = (sum(getattr(t, name) for t in late) for name in ("arrived", "admitted"))
    load = arrived * scale * COSTS.mean()
    excess = load - sum(t.busy for t in late)
    fewest = excess / (scale * COSTS[2])  # of the dearest class, of which there are enough
    assert excess > 0.3 * load
    assert arrived - kept <= 1.25 * fewest


def test_a_dear_key_that_turns_up_in_a_calm_is_not_shed() -> None:
    clock, plan = Clock(), GuardPlan(1.0, sketch=Sketch(0.01))

    def function(row: int) -> int:
        clock.now += (0.001, 0.1)[row]
        return row

    for _ in range(5):
        for row in (0, 0, 0, 1):
            admission = Admission(function, plan, clock)
            rows = np.full(3, row)
            places, _ = admission.admit(_made(rows), fingerprints(rows), np.full(3, clock.now))
            assert len(places) == 3
            plan = plan.after(admission.report, 1)


def test_a_hiccup_before_a_dear_key_turns_up_sheds_nothing() -> None:
    """The limit has just left its top, and now there is a key a thousand times as dear."""
    clock, plan = Clock(), GuardPlan(0.5, sketch=Sketch(0.01))

    def function(row: int) -> int:
        clock.now += (0.001, 1.0)[row]
        return row

    for row, late in ((1, 0.6), (0, 0.0), (0, 0.0), (1, 0.0), (0, 0.0)):
        admission = Admission(function, plan, clock)
        rows = np.array([row])
        places, _ = admission.admit(_made([row]), fingerprints(rows), np.array([clock.now - late]))
        assert len(places) == 1
        plan = replace(plan.after(admission.report, 1), trial=-1.0)


def test_one_tuple_from_long_ago_does_not_close_the_door() -> None:
    """Late data has waited for hours, and says nothing about the load."""
    clock, plan = Clock(), GuardPlan(1.0, sketch=Sketch(0.01))
    for arrived in (0.0, -1e6, 0.0):
        admission = Admission(lambda row: row, plan, clock)
        moments = np.full(10, clock.now)
        moments[4] += arrived
        places, _ = admission.admit(_made(list(range(10))), fingerprints(np.arange(10)), moments)
        assert len(places) == (10 if arrived == 0.0 else 9)
        plan = plan.after(admission.report, 1)


def test_costs_are_learnt() -> None:
    _, plan = _batches(20.0, 1.2, 4, COSTS, 0.2)
    assert np.allclose(plan.sketch.costs(fingerprints(np.arange(3))), COSTS, rtol=0.05)


def test_who_learns_sheds_as_little_as_who_is_told_the_mean_of_each_key() -> None:
    """What is in a key is learnt to the full; what is not, nobody can know."""
    shed = {}
    for known_costs in (False, True):
        late = [
            report
            for seed in range(4)
            for report in _batches(40.0, 1.5, seed, COSTS, 0.3, 0.8, known_costs)[0][10:]
        ]
        shed[known_costs] = sum(t.shed for t in late) / sum(t.arrived for t in late)
    assert shed[True] > 0.05
    assert shed[False] <= shed[True] + 0.02


def test_a_fast_function_is_timed_in_blocks() -> None:
    clock = Clock()
    calls = 0

    def clocked() -> float:
        nonlocal calls
        calls += 1
        return clock.now

    def function(row: int) -> int:
        clock.now += 1e-5
        return row

    admission = Admission(function, GuardPlan(1.0), clocked)
    rows = list(range(20_000))
    places, _ = admission.admit(
        _made(rows), fingerprints(np.array(rows)), np.full(20_000, clock.now)
    )
    assert len(places) == 20_000
    assert calls < 0.25 * 20_000
    assert admission.report.sketch.tuples < 20_000 / 4
    assert admission.report.sketch.mean == pytest.approx(1e-5)


def test_only_rows_that_are_kept_are_made_and_making_them_is_part_of_their_cost() -> None:
    clock, plan, made = Clock(), GuardPlan(0.1, 0.1, Sketch(0.01), trial=-1.0), 0

    def rows(places: Ints) -> list[int]:
        nonlocal made
        made += places.size
        clock.now += 0.02 * places.size
        return [0] * places.size

    admission = Admission(lambda row: row, plan, clock)
    places, _ = admission.admit(rows, fingerprints(np.zeros(50, dtype=int)), np.full(50, clock.now))
    assert made == len(places) < 50
    assert admission.report.sketch.mean == pytest.approx(0.02)
    assert admission.report.busy == pytest.approx(0.02 * made)


def test_errors_are_skipped_and_counted_or_raised() -> None:
    def function(row: int) -> float:
        return 1 / row

    keys, arrived = fingerprints(np.arange(4)), np.full(4, 100.0)
    admission = Admission(function, GuardPlan(1.0), Clock(), skip_errors=True)
    places, results = admission.admit(_made([0, 1, 2, 0]), keys, arrived)
    assert (places, results) == ([1, 2], [1.0, 0.5])
    assert (admission.report.admitted, admission.report.failed, admission.report.shed) == (2, 2, 0)
    assert admission.report.error == "ZeroDivisionError: division by zero"
    with pytest.raises(ZeroDivisionError):
        Admission(function, GuardPlan(1.0), Clock()).admit(_made([0]), keys[:1], arrived[:1])


def test_a_task_on_trial_learns_although_its_tuples_are_all_late() -> None:
    """Law 10: one of them is kept, and any of them may be."""
    clock = Clock()
    for trial, kept in ((0.0, [0]), (0.4, [1]), (0.99, [2]), (-1.0, [])):
        admission = Admission(lambda row: row, GuardPlan(0.1, 0.1, trial=trial), clock)
        keys, arrived = fingerprints(np.arange(3)), np.full(3, clock.now - 60)
        assert admission.admit(_made([1, 2, 3]), keys, arrived)[0] == kept
        assert admission.admit(_made([1, 2, 3]), keys, arrived)[0] == []  # once a task


def test_what_a_key_cost_once_is_forgotten() -> None:
    """A model that took 5 s to load, and then is the cheapest of all, under overload."""
    rng, clock = np.random.default_rng(0), Clock()
    plan = GuardPlan(0.5, 0.9, Sketch(0.01))
    plan.sketch.update(fingerprints([7]), np.array([5.0]))
    kept = []

    def function(row: int) -> int:
        clock.now += 0.001 if row == 7 else 0.01
        return row

    arrival = clock.now
    for batch in range(300):
        count = max(int((clock.now - arrival) * 150), 1)  # half as much again as can be done
        rows = np.sort(rng.choice([1, 2, 3, 4, 7], count, p=[0.25, 0.25, 0.2, 0.2, 0.1]))
        arrived = np.linspace(arrival, clock.now, count)
        arrival = clock.now
        trial = rng.random() if batch % 2 == 0 else -1.0
        admission = Admission(function, replace(plan, trial=trial), clock)
        _, results = admission.admit(_made(rows), fingerprints(rows), arrived)
        plan = plan.after(admission.report, 1)
        kept.append((results.count(7), int((rows == 7).sum())))
    ran, came = np.array(kept[-100:]).sum(axis=0)
    assert ran > 0.9 * came


def test_a_limit_that_many_tasks_move_a_little_moves() -> None:
    """64 of them side by side, and each moves it by a thousandth of the way."""
    plan = GuardPlan(1.0, sketch=Sketch(0.01))
    for _ in range(64):
        plan = plan.after(TaskReport(Sketch(0.01), admitted=1, moved=-0.05 * plan.top), 64)
    assert plan.limit == pytest.approx(0.95 * plan.top)


@pytest.mark.parametrize("size", [1, 3])
def test_small_tasks_do_not_let_the_wait_grow(size: int) -> None:
    """A source that gives a row or three at a time, and twice as many as can be done."""
    clock, plan, last = Clock(), GuardPlan(0.2, sketch=Sketch(0.01)), -1.0
    rows, gap, kept, waited = np.zeros(size, dtype=int), 0.005, 0, 0.0

    def function(row: int) -> int:
        clock.now += 0.01
        return row

    arrival = clock.now
    for batch in range(6000):
        trial = 0.0 if clock.now - last >= 0.2 else -1.0
        last = last if trial else clock.now
        clock.now = max(clock.now, arrival)
        admission = Admission(function, replace(plan, trial=trial), clock)
        arrived = np.asarray(arrival + gap * np.arange(size), dtype=np.float64)
        admission.admit(_made(rows), fingerprints(rows), arrived)
        plan = plan.after(admission.report, 1)
        arrival += gap * size
        if batch > 2000:
            kept, waited = kept + admission.report.admitted, waited + admission.report.waited
    assert 0.5 * 0.2 < waited / kept <= 1.05 * 0.2


def test_a_limit_that_is_too_low_rises_again() -> None:
    """Where a change of costs leaves it below every imposed wait, though nobody waits."""
    sketch, clock = Sketch(0.01), Clock()
    rows = np.arange(20)
    sketch.update(fingerprints(rows), np.full(20, 0.01))
    plan = GuardPlan(1.0, 1.0, sketch)

    def function(row: int) -> int:
        clock.now += 0.01
        return row

    for _ in range(60):
        admission = Admission(function, plan, clock)
        arrived = np.full(20, clock.now - 0.5)
        places, _ = admission.admit(_made(rows), fingerprints(rows), arrived)
        plan = plan.after(admission.report, 1)
    assert len(places) == 20


def test_known_costs_replace_what_is_learnt() -> None:
    asked: list[Any] = []

    def costs(keys: Any) -> Floats:
        asked.append(keys)
        return np.full(keys.size, 0.5)

    sketch = Sketch()
    sketch.add(1, 0.25)
    admission = Admission(lambda row: row, GuardPlan(1.0, 1.0, sketch), Clock(), costs=costs)
    places, _ = admission.admit(_made([1, 2]), fingerprints(np.arange(2)), np.full(2, 98.0))
    assert asked
    assert len(places) == 1  # and 0.5 is too dear for the second


def test_reports_of_tasks_side_by_side_move_the_limit_by_their_average() -> None:
    plan = GuardPlan(1.0, 1.5)
    up, down = TaskReport(Sketch(), moved=0.4), TaskReport(Sketch(), moved=-0.2)
    assert plan.after(up, 2).after(down, 2).limit == pytest.approx(1.6)
