"""What tests of policies and controllers stand on."""

import numpy as np
import pytest

from penstock import testing
from penstock.core.controller import Controller
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Count, Report, Strata, Stratum
from penstock.policy.balance_sic import BalanceSic
from penstock.testing import Draw, ScriptedGate, plan_of, random_demand

A, B = Stratum("q", "a"), Stratum("q", "b")


def test_all_that_is_exported_is_there_and_says_what_it_is_for() -> None:
    assert testing.__all__ == sorted(testing.__all__)
    for name in testing.__all__:
        thing = getattr(testing, name)
        assert name in ("PolicyCheck", "Rates") or thing.__doc__


def test_a_plan_as_it_is_written_down() -> None:
    plan = plan_of({A: 0.25, B: 0.5}, default=0.75, sic=0.01, version=3)
    assert (plan.version, plan.strata) == (3, Strata([A, B]))
    assert [plan.rate(s) for s in (A, B, Stratum("p", "a"))] == [0.25, 0.5, 0.75]
    assert plan.sic.tolist() == [0.01, 0.01]
    assert not plan.open
    assert plan_of({A: 1.0}).open


def test_a_draw_admits_as_many_as_the_rates_say_and_repeats_itself() -> None:
    plan, arrived = plan_of({A: 0.25, B: 1.0}), {A: 100_000, B: 10}
    counts = Draw(seed=3).admitted(plan, arrived)
    assert counts == Draw(seed=3).admitted(plan, arrived)
    assert counts != Draw(seed=4).admitted(plan, arrived)
    assert counts[B] == Count(10, 10)
    assert counts[A].admitted == pytest.approx(25_000, abs=4 * np.sqrt(100_000 * 0.25 * 0.75))


def test_a_script_goes_on_with_its_last_plan_and_feeds_a_controller() -> None:
    gate = ScriptedGate([plan_of({}), plan_of({A: 0.5}, default=0.0)], interval=2.0)
    batches = [gate.batch({A: 1000, B: 1000}, seconds=0.5) for _ in range(3)]
    assert [(batch.number, batch.started) for batch in batches] == [(0, 0.0), (1, 2.0), (2, 4.0)]
    assert [batch.counts[B].admitted for batch in batches] == [1000, 0, 0]
    assert 400 < batches[1].counts[A].admitted < 600
    controller = Controller(Settings(policy=BalanceSic(), interval=2.0))
    state, _ = controller.step(State(), Report(4.0, tuple(batches)))
    assert state.account is not None
    admitted = sum(batch.admitted for batch in batches)
    assert float(state.account.admitted().sum()) == admitted


def test_random_demands_are_repeatable_and_of_every_kind() -> None:
    demands = [random_demand(seed) for seed in range(100)]
    assert random_demand(7).tuples.tolist() == demands[7].tuples.tolist()
    for column in ("tuples", "sic", "cost"):
        assert any((getattr(demand, column) == 0).any() for demand in demands)
    assert any(demand.paid.any() for demand in demands)
    assert max(map(len, demands)) == 11
