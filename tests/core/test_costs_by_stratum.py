"""The controller with costs by stratum: it divides time, not tuples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from penstock.core.controller import Controller
from penstock.core.settings import Settings
from penstock.core.state import State, StreamState, learn
from penstock.core.types import OTHER_GROUPS, Batch, Count, Report, Stratum, Upcoming
from penstock.policy.balance_sic import BalanceSic
from penstock.windows.merged import with_groups_merged

CHEAP, DEAR = Stratum("cheap", "s"), Stratum("dear", "s")
COSTS = {CHEAP: 1e-4, DEAR: 1e-3}
FIXED = 0.1
TURN = 8


def _learnt(stream: StreamState, batch: Batch) -> StreamState:
    return learn(stream, batch, Settings(policy=BalanceSic()))


def _loop(
    told: bool, shares: tuple[float, float] = (0.1, 0.9), batches: int = 80
) -> Iterator[tuple[float, dict[str, float]]]:
    """Latency and SIC of each batch. The two queries take turns in sending most of the stream."""
    controller, state = Controller(Settings(policy=BalanceSic())), State()
    now, finished, waited = 0.0, None, 1.0
    for number in range(batches):
        share = shares[number // TURN % 2]
        tuples = {CHEAP: round(8000 * waited * share), DEAR: round(8000 * waited * (1 - share))}
        report = Report(
            now=now,
            finished=() if finished is None else (finished,),
            starting=Upcoming("stream", waited, sum(tuples.values())),
        )
        state, plan = controller.step(state, report)
        counts = {s: Count(n, round(n * plan.rate(s))) for s, n in tuples.items()}
        seconds = FIXED + sum(count.admitted * COSTS[s] for s, count in counts.items())
        finished = Batch("stream", number, now, seconds, counts, costs=COSTS if told else {})
        yield waited + seconds, {} if state.account is None else state.account.sic()
        waited = max(seconds, 1.0)
        now += waited


def test_the_mix_may_change_when_costs_are_known() -> None:
    with_costs = [latency for latency, _ in _loop(told=True)][20:]
    without = [latency for latency, _ in _loop(told=False)][20:]
    late = [float(np.mean(np.array(latencies) > 2.05)) for latencies in (with_costs, without)]
    assert late[0] <= 0.15  # the batch in which it turns: the mix that comes is not known before
    assert late[1] > late[0]


def test_both_get_the_same_sic() -> None:
    sic = [sic for _, sic in _loop(told=True, shares=(0.5, 0.8))][40:]
    mean = {query: np.mean([s[query] for s in sic]) for query in ("cheap", "dear")}
    assert mean["cheap"] == pytest.approx(mean["dear"], abs=0.05)
    assert mean["cheap"] < 0.9


def test_cheap_strata_of_one_query_are_served_first() -> None:
    controller, state = Controller(Settings(policy=BalanceSic())), State()
    groups = {Stratum("q", "s", name): cost for name, cost in {"a": 1e-4, "b": 2e-3}.items()}
    finished = None
    for number in range(20):
        report = Report(
            float(number), () if finished is None else (finished,), Upcoming("stream", 1.0)
        )
        state, plan = controller.step(state, report)
        counts = {s: Count(2000, round(2000 * plan.rate(s))) for s in groups}
        seconds = FIXED + sum(count.admitted * groups[s] for s, count in counts.items())
        finished = Batch("stream", number, float(number), seconds, counts, costs=groups)
    rates = {s.group: plan.rate(s) for s in groups}
    assert rates["a"] == pytest.approx(1.0)
    assert 0.1 < rates["b"] < 0.5


def test_weights_are_relative_to_the_first_average() -> None:
    counts = {CHEAP: Count(100, 100), DEAR: Count(100, 100)}
    stream = _learnt(StreamState(), Batch("stream", 0, 0.0, 1.0, counts, costs=COSTS))
    assert stream.unit == pytest.approx(5.5e-4)
    assert stream.weight(DEAR) / stream.weight(CHEAP) == pytest.approx(10)
    assert stream.mean_weight == pytest.approx(1.0)
    assert stream.weight(Stratum("new", "s")) == 1.0


def test_without_costs_nothing_changes() -> None:
    counts = {CHEAP: Count(100, 50), DEAR: Count(100, 50)}
    stream = _learnt(StreamState(), Batch("stream", 0, 0.0, 1.0, counts))
    assert (stream.unit, stream.weight(DEAR), stream.mean_weight) == (0.0, 1.0, 1.0)
    assert stream.governor.last == 100


def test_groups_of_a_window_cost_what_they_cost_together() -> None:
    many, few, other = Stratum("q", "s", "a"), Stratum("q", "s", "b"), Stratum("p", "s", "b")
    counts = {many: Count(900, 900), few: Count(100, 100), other: Count(5, 5)}
    batch = Batch("stream", 0, 0.0, 2.0, counts, costs={many: 0.001, few: 0.011, other: 0.5})
    merged = with_groups_merged(batch, ["q"])
    assert merged.costs == pytest.approx({Stratum("q", "s", OTHER_GROUPS): 0.002, other: 0.5})
    assert _learnt(StreamState(), merged).unit == pytest.approx((2.0 + 2.5) / 1005)


def test_costs_of_strata_that_are_gone_are_forgotten() -> None:
    stream = StreamState()
    for number in range(40):
        stratum = Stratum("q", "s", f"g{number}")
        counts, costs = {stratum: Count(10, 10)}, {stratum: 0.01}
        stream = _learnt(stream, Batch("stream", number, float(number), 0.2, counts, costs=costs))
    assert len(stream.costs) < 10
    assert Stratum("q", "s", "g39") in stream.costs


def test_a_model_that_is_known_later_is_told_later() -> None:
    """A stream that was alone has no model of its work; of a first batch all may have failed."""
    none, some = {DEAR: Count(100, 0)}, {DEAR: Count(100, 100)}
    stream = _learnt(StreamState(), Batch("stream", 0, 0.0, 0.3, none, costs={DEAR: 0.001}))
    assert not stream.clock_told
    stream = _learnt(stream, Batch("stream", 1, 1.0, 0.3, some, costs={DEAR: 0.001}))
    assert (stream.clock_told, stream.work_told) == (True, False)
    stream = _learnt(stream, Batch("stream", 2, 2.0, 0.3, some, work=0.2, costs={DEAR: 0.001}))
    assert stream.work_told
    assert stream.work.admitting == pytest.approx(0.001)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_job_that_is_too_slow_even_to_read_starves_no_other(batches: int) -> None:
    """One batch tells no rate, so that nothing is expected of it; several do."""
    controller, state = Controller(Settings(policy=BalanceSic())), State()
    for number in range(batches):
        now = 9.0 * number
        slow = Batch("cheap", number, now, 9.0, {CHEAP: Count(100, 1)}, costs={CHEAP: 1e-4})
        quick = Batch("dear", number, now, 0.3, {DEAR: Count(1000, 100)}, costs={DEAR: 1e-3})
        starting = Upcoming("dear", 1.0, 1000)
        report = Report(now=now + 9.0, finished=(slow, quick), starting=starting)
        state, plan = controller.step(state, report)
    assert plan.rate(DEAR) > 0.05
