"""LAS' state machines, one message at a time, and the shedders that it is compared with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.guard.guard_plan import TUPLES_BEHIND_FACTOR
from penstock.guard.sketch import Sketch
from penstock.lab.las import (
    Absolute,
    Average,
    BaseLine,
    DearestFirst,
    FullKnowledge,
    LoadAware,
    Operator,
    SlidingAverage,
    StrawManShedder,
    TupleShedder,
)
from penstock.lab.las.checks import Check
from penstock.lab.las.dearest_first import (
    LIMIT_STEP_SHARE,
    LOWEST_LIMIT_IN_THRESHOLDS,
    TUPLES_PER_REQUEST,
)
from penstock.lab.las.operator import OperatorPhase, snapshot_error
from penstock.lab.las.protocol_messages import Matrices, Message, Reply, Request
from penstock.lab.las.streams import Setting, association, popularity, runs
from tests.reference.las_simulation import exact_costs, simulate

# --- the operator --------------------------------------------------------------------------------


def _execute(
    operator: Operator, costs: list[float], request: Request | None = None
) -> list[Message]:
    told: list[Message] = []
    for number, cost in enumerate(costs):
        told += operator.executed_one(number % 3, 0.0, cost, 10.0, request)
    return told


def test_operator_takes_a_snapshot_after_n_tuples_and_sends_what_is_stable() -> None:
    operator = Operator(Sketch(), window=6)
    assert _execute(operator, [1.0] * 5) == []
    assert str(operator.phase) == str(OperatorPhase.START)
    assert _execute(operator, [1.0]) == []
    assert str(operator.phase) == str(OperatorPhase.STABILIZING)
    (sent,) = _execute(operator, [1.0] * 6)
    assert isinstance(sent, Matrices)
    assert sent.sketch.tuples == 11  # the tuple that made it look is counted with the next
    assert str(operator.phase) == str(OperatorPhase.START)
    assert operator.sketch.tuples == 1


def test_operator_does_not_send_what_is_not_stable() -> None:
    operator = Operator(Sketch(), window=6)
    _execute(operator, [1.0] * 6)
    assert _execute(operator, [5.0] * 6) == []
    assert operator.phase is OperatorPhase.STABILIZING
    assert operator.sketch.tuples == 12


def test_snapshot_error_is_equation_1() -> None:
    before, now = np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])
    assert snapshot_error(before, now) == pytest.approx((1 + 2) / 4)


def test_operator_replies_with_the_skew_of_the_tuple_that_asked() -> None:
    operator = Operator(Sketch())
    operator.executed_one(1, 0.5, 2.0, 2.5)
    (reply,) = operator.executed_one(1, 0.5, 3.0, 7.0, Request(total=6.0, work=4.0, wait=0.25))
    assert reply == Reply(skew=1.0, work=5.0, estimated=4.0, tuples=2, late=0.75)


# --- the checks ----------------------------------------------------------------------------------


def test_absolute() -> None:
    check = Absolute(5.0)
    assert [check.refuses(q) for q in (5.0, 5.1, 0.0)] == [False, True, False]


def test_average_tries_the_tuple_first_and_forgets_it_when_refused() -> None:
    check = Average(5.0)
    assert [check.refuses(q) for q in (2.0, 9.0, 8.0, 6.0, 5.0)] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert check.total / check.tuples == 5.0


@given(st.lists(st.floats(0, 100), min_size=1))
def test_average_is_never_above_its_threshold(latencies: list[float]) -> None:
    check = Average(7.0)
    kept = []
    for latency in latencies:
        if not check.refuses(latency):
            kept.append(latency)
            assert sum(kept) / len(kept) <= 7.0 * (1 + 1e-12)


def test_dropping_once_is_not_dropping_for_ever() -> None:
    """What listing III.2 taken literally would do."""
    check = Average(1.0)
    assert check.refuses(50.0)
    assert not check.refuses(1.0)


def test_sliding_average_forgets() -> None:
    check = SlidingAverage(2.0, window=2)
    assert [check.refuses(q) for q in (2.0, 2.0, 3.0)] == [False, False, True]
    assert not check.refuses(0.0)
    assert not check.refuses(4.0)
    assert check.refuses(0.5)
    assert not check.refuses(0.0)


@given(st.lists(st.integers(0, 40), max_size=200), st.integers(1, 9))
def test_a_sliding_average_is_never_above_its_threshold(waits: list[int], window: int) -> None:
    """Of every window, also where tuples in it waited long; and who does not wait is kept."""
    check, kept = SlidingAverage(7.0, window), list[int]()
    for wait in waits:
        refused = check.refuses(wait)
        assert not (refused and wait == 0)
        kept += [] if refused else [wait]
        assert sum(kept[-window:]) <= 7.0 * len(kept[-window:])


@pytest.mark.parametrize("check", [Absolute(1.0), Average(1.0), SlidingAverage(1.0)])
def test_what_is_no_number_is_refused_and_forgotten(check: Check) -> None:
    assert check.refuses(float("nan"))
    assert check.refuses(1e9)
    assert not check.refuses(0.5)


def test_a_sliding_average_begins_with_the_first_tuple() -> None:
    """And not with a window of tuples that never were."""
    check = SlidingAverage(1.0, window=4096)
    assert check.refuses(500.0)
    assert not check.refuses(0.5)
    assert not check.refuses(1.5)
    assert check.refuses(1.5)


# --- the shedder ---------------------------------------------------------------------------------


def _sketch(costs: dict[int, float]) -> Sketch:
    sketch = Sketch(0.001)
    for key, cost in costs.items():
        sketch.add(key, cost)
    return sketch


def test_shedder_sheds_nothing_until_it_knows_something() -> None:
    shedder = LoadAware(Absolute(0.0))
    assert not any(shedder.sheds(1, 0.0) for _ in range(10))
    assert shedder.request() is None


def test_shedder_sends_its_total_once_after_new_matrices() -> None:
    shedder = LoadAware(Absolute(100.0), error=0.5)
    shedder.receive(Matrices(_sketch({1: 4.0, 2: 8.0})))
    assert not shedder.sheds(1, 1.0)
    assert shedder.request() == Request(1.0 + 4.0 * 1.5)
    assert not shedder.sheds(2, 1.0)
    assert shedder.request() is None
    assert shedder.total == 7.0 + 8.0 * 1.5


def test_one_synchronisation_at_a_time() -> None:
    shedder = LoadAware(Absolute(100.0), error=0.0)
    shedder.receive(Matrices(_sketch({1: 4.0})))
    shedder.sheds(1, 0.0)
    assert shedder.request() is not None
    shedder.receive(Matrices(_sketch({1: 4.0})))
    shedder.sheds(1, 0.0)
    assert shedder.request() is None  # it would correct the same skew twice
    shedder.receive(Reply(skew=2.0))
    assert shedder.total == 10.0
    shedder.sheds(1, 0.0)
    assert shedder.request() == Request(14.0)


def test_time_that_was_taken_for_idle_is_not_corrected_twice() -> None:
    """The first tuple takes 100 instead of 1; the others come every 2 and take 1, as foreseen."""
    shedder = LoadAware(Absolute(1e9), error=0.0)
    shedder.receive(Matrices(_sketch({1: 1.0})))
    assert not shedder.sheds(1, 0.0)
    assert shedder.request() == Request(1.0)
    for number in range(1, 50):
        assert not shedder.sheds(1, 2.0 * number)
    shedder.receive(Reply(skew=99.0))
    assert shedder.total == 100.0 + 49  # the operator was never idle


def test_an_idle_operator_is_not_ahead_of_time() -> None:
    shedder = StrawManShedder(Absolute(0.5), mean=1.0)
    assert not shedder.sheds(1, 0.0)
    assert not shedder.sheds(1, 100.0)
    assert shedder.total == 101.0
    assert shedder.sheds(1, 100.0)


def test_full_knowledge_foresees_what_happens() -> None:
    alone = runs([Setting()], 1, 1, tuples=2000).one(0)
    check = Average(6.4)
    outcome = simulate(alone, FullKnowledge(check, exact_costs(alone)), Operator(Sketch()))
    averages = np.cumsum(outcome.waits) / np.arange(1, len(outcome.waits) + 1)
    assert averages.max() <= 6.4 + 1e-9
    assert check.total == pytest.approx(sum(outcome.waits))
    assert 0.2 < 1 - np.mean(outcome.kept) < 0.35


def test_base_line_drops_its_share() -> None:
    shedder = BaseLine(0.3, np.random.default_rng(0))
    assert 0.28 < np.mean([shedder.sheds(1, 0.0) for _ in range(10_000)]) < 0.32


def test_all_have_one_shape() -> None:
    check = Average(1.0)
    shedders: list[TupleShedder] = [
        LoadAware(check),
        DearestFirst(1.0),
        StrawManShedder(check, 1.0),
        FullKnowledge(check, lambda _key, _now: 1.0),
        BaseLine(0.1, np.random.default_rng(0)),
    ]
    for shedder in shedders:
        shedder.receive(Matrices(_sketch({1: 1.0})))
        sheds = shedder.sheds(1, 0.0)
        assert isinstance(sheds, bool)
        assert not sheds or isinstance(shedder, BaseLine), "nothing waits, so there is no reason"
        assert shedder.request() is None or isinstance(shedder, LoadAware | DearestFirst)


# --- dearest first -------------------------------------------------------------------------------


def test_the_dear_one_goes_and_the_cheap_one_stays() -> None:
    shedder = DearestFirst(5.0, _sketch({1: 1.0, 2: 2.0}))
    shedder.limit = shedder.delay_of_others(1.5)
    assert shedder.sheds(2, 0.0)
    assert not shedder.sheds(1, 0.0)


def test_nothing_is_shed_while_nothing_waits() -> None:
    """Also when a key turns up that is a hundred times as dear as all before."""
    shedder = DearestFirst(5.0, _sketch({1: 1.0}))
    assert not any(shedder.sheds(1, 10.0 * n) for n in range(100))  # the limit is at its highest
    shedder.receive(Matrices(_sketch({1: 1.0, 2: 100.0})))
    assert not shedder.sheds(2, 10_000.0)


def test_it_never_sticks() -> None:
    """Even where every tuple is dearer than the limit allows."""
    shedder = DearestFirst(0.1, _sketch({1: 1000.0}))
    shedder.limit = LOWEST_LIMIT_IN_THRESHOLDS * 0.1
    assert not all(shedder.sheds(1, float(10_000 * n)) for n in range(200))


def test_costs_that_double_are_noticed_by_the_work() -> None:
    shedder = DearestFirst(1e6, _sketch({1: 1.0}))
    for now in range(4000):
        assert not shedder.sheds(1, float(now))
        request = shedder.request()
        if request is not None:
            shedder.receive(
                Reply(0.0, 2.0 * TUPLES_PER_REQUEST, request.work, tuples=TUPLES_PER_REQUEST)
            )
    assert shedder.cost(1) == pytest.approx(2.0, rel=0.01)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(0.0, 3.0), st.floats(0.5, 5.0))
def test_the_bound_of_the_average(seed: int, gaps: float, threshold: float) -> None:
    """``average(q̂) ≤ τ + (L_max - L_min) / (g · n)``, whatever comes."""
    rng = np.random.default_rng(seed)
    costs = {1: 0.5, 2: 1.0, 3: 4.0}
    shedder = DearestFirst(threshold, _sketch(costs))
    now, idle_refused, waits = 0.0, 0.0, []
    arrivals = zip(rng.integers(1, 4, 300).tolist(), rng.uniform(0, gaps, 300), strict=True)
    for key, gap in arrivals:
        wait = max(shedder.total - now, 0.0)
        if shedder.sheds(key, now):
            idle_refused += threshold + shedder.delay_of_others(costs[key]) if wait == 0.0 else 0.0
        else:
            waits.append(wait)
        now += gap
    highest = threshold * (2 + TUPLES_BEHIND_FACTOR * shedder.spread)
    slack = (highest - LOWEST_LIMIT_IN_THRESHOLDS * threshold) / LIMIT_STEP_SHARE + idle_refused
    assert sum(waits) <= threshold * len(waits) + slack + 1e-6


@pytest.mark.parametrize(
    "make",
    [
        lambda: Absolute(float("nan")),
        lambda: Average(-1.0),
        lambda: SlidingAverage(1.0, 0),
        lambda: Operator(Sketch(), window=0),
        lambda: Operator(Sketch(), tolerance=float("nan")),
        lambda: BaseLine(2.0, np.random.default_rng(0)),
        lambda: StrawManShedder(Average(1.0), -1.0),
        lambda: LoadAware(Average(1.0), error=-2.0),
        lambda: DearestFirst(float("inf")),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(PenstockError, match=r"a number from .* is needed, not"):
        make()


# --- streams -------------------------------------------------------------------------------------


def test_streams_are_those_of_section_v_a() -> None:
    costs = association(np.random.default_rng(0))
    values, often = np.unique(np.round(costs, 6), return_counts=True)
    assert np.allclose(values, np.arange(1, 65) / 10)
    assert (often == 64).all()
    assert popularity(1.0)[0] == pytest.approx(1 / sum(1 / k for k in range(1, 4097)))
    made = runs([Setting(under=0.25), Setting(under=0.0)], 2, 3, tuples=100)
    assert made.items.shape == (100, 12)
    assert np.allclose(made.phases[0].gap[:6], 0.75 * made.mean[:6])
    assert np.allclose(made.phases[0].gap[6:], made.mean[6:])
