"""Where queries stand when other sites, late news and partial results play a part."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.core.account import Account
from penstock.core.capacity import Capacity
from penstock.core.controller import Controller
from penstock.core.declared import DeclaredSources
from penstock.core.demand import Demand, Queries
from penstock.core.news import remember, sic_elsewhere
from penstock.core.rounding import take_whole
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import (
    Batch,
    CoordinatorNews,
    Count,
    Report,
    Stratum,
    Tally,
    Upcoming,
)
from penstock.policy import get
from penstock.policy.balance_sic import BalanceSic
from penstock.policy.balance_sic_paid import BalanceSicPaid
from penstock.testing import Cost, Plant, random_demand

Q = Stratum("q", "s")


def _account(kept: int, slots: int = 10) -> Account:
    account = Account(1.0, 10.0)
    for second in range(slots):
        account = account.record(second + 0.5, {Q: Count(100, kept)})
    return account


def test_shares_say_what_the_sources_seen_here_carry() -> None:
    account = _account(50)
    assert account.sic() == {"q": pytest.approx(0.5)}
    assert account.sic({("q", "s"): 0.2}) == {"q": pytest.approx(0.1)}
    worth = account.by_query({("q", "s"): 0.2}).tuple_sic
    assert worth.tolist() == pytest.approx([0.2 / 1000])


def test_news_is_compared_with_what_we_did_when_it_was_true() -> None:
    """At 5 s we gave 0.1 and the query had 0.3; that we give 0.2 now is not in the news yet."""
    settings = Settings(policy=BalanceSic())
    state, standing = State(), _account(50).by_query()
    state = remember(state, replace(standing, sic=np.array([0.1])), Report(5.0, told={}), settings)
    state = replace(state, own=((5.0, {"q": 0.1}),))
    late = Report(6.0, told={"q": CoordinatorNews(0.3, 5.0)})
    state = remember(state, replace(standing, sic=np.array([0.2])), late, settings)
    assert sic_elsewhere(state, ("q",), 6.0, 10.0).tolist() == pytest.approx([0.2])


def test_old_news_fades() -> None:
    state = State(told={"q": CoordinatorNews(0.3, 0.0)}, own=((0.0, {"q": 0.1}),))
    found = [float(sic_elsewhere(state, ("q",), now, 10.0)[0]) for now in (10.0, 15.0, 20.0, 30.0)]
    assert found == pytest.approx([0.2, 0.1, 0.0, 0.0])


def test_what_waits_is_known_where_somebody_has_looked() -> None:
    """A stratum that is not waiting is not planned for, whatever came in the batches before."""
    settings = Settings(policy=BalanceSic())
    batch = Batch("j", 0, 0.0, 0.9, {Q: Count(1000, 100), Stratum("p", "s"): Count(1000, 100)})
    state, _ = Controller(settings).step(State(), Report(0.9, (batch,)))
    assert state.account is not None
    for waiting, tuples in ((None, [150.0, 150.0]), (_tally(300), [300.0, 0.0])):
        outlook = Upcoming("j", 1.0, 300, waiting)
        forecast = Capacity(settings).forecast(state, state.account, outlook)
        assert forecast.tuples.tolist() == pytest.approx(tuples)


def _tally(tuples: int) -> Tally:
    return Tally.of({Q: Count(tuples, 0)})


def test_a_few_valuable_tuples_are_taken_whole_within_the_capacity() -> None:
    demand = Demand.of(Queries.of([0.0, 0.0]), [0, 1], [1, 1000], [0.5, 0.001])
    rates = take_whole(demand, np.array([0.4, 0.1]), 100.4)
    assert rates[0] == 1.0
    assert demand.spent(rates) == pytest.approx(100.4)


def test_nothing_is_rounded_up_that_the_plan_does_not_want_or_that_is_many() -> None:
    demand = Demand.of(Queries.of([0.0] * 3), [0, 1, 2], [1, 500, 1000], [0.5, 0.5, 0.001])
    rates = np.array([0.0, 0.4, 0.1])
    assert take_whole(demand, rates, 400.0).tolist() == rates.tolist()
    alone = Demand.of(Queries.of([0.0]), [0], [1], [0.5])
    assert take_whole(alone, np.array([0.4]), 0.4).tolist() == [0.4]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_paid_for_passes_first_and_the_rest_is_level(seed: int) -> None:
    demand = random_demand(seed, 20)
    capacity = 0.5 * demand.total_cost()
    rates = BalanceSicPaid().rates(demand, capacity)
    cost = demand.tuples * demand.cost
    assert float((cost * rates).sum()) <= capacity * (1 + 1e-9) + 1e-9
    if float(cost[demand.paid].sum()) <= capacity:
        assert (rates[demand.paid] == 1.0).all()
    else:
        assert (rates[~demand.paid & (cost > 0)] == 0.0).all()


@pytest.mark.parametrize("seed", range(10))
def test_without_partial_results_it_is_balance_sic(seed: int) -> None:
    demand = random_demand(seed)
    demand = replace(demand, paid=np.zeros(len(demand), dtype=np.bool_))
    capacity = 0.3 * demand.total_cost()
    paid, plain = (
        get(name).rates(demand, capacity) for name in ("balance-sic-paid", "balance-sic")
    )
    assert paid.tolist() == plain.tolist()


def test_a_query_with_a_dead_source_is_neither_starved_nor_flooded() -> None:
    """One of three sources of q dies. Both queries go on to lose the same part of what comes."""
    cost = Cost(fixed=0.1, arriving=0.0, admitting=1e-4)
    alive = {Stratum("p", "x"): 10_000.0, Stratum("q", "a"): 5_000.0, Stratum("q", "b"): 5_000.0}
    plant = Plant(lambda t: alive | {Stratum("q", "c"): 5_000.0 if t < 20 else 0.0}, cost)
    declared = {"q": DeclaredSources(frozenset("abc"))}
    settings = Settings(policy=BalanceSic(), sources=declared)
    runs = plant.run(Controller(settings), batches=60)
    account = Account(1.0, 10.0)
    for run in runs[45:]:
        account = account.record(run.started, run.counts)
    seen, told = account.sic(), account.sic(None, declared)
    assert 0.3 < seen["p"] < 0.6
    assert seen["q"] == pytest.approx(seen["p"], rel=0.05)
    assert told["q"] == pytest.approx(seen["q"] * 2 / 3)
    assert told["p"] == seen["p"]


def test_late_tuples_are_missing_from_the_sic_and_cost_what_others_cost() -> None:
    """They carry nothing to the result, but the batch has had them to work on."""
    controller = Controller(Settings(policy=BalanceSic()))
    batch = Batch("j", 0, 0.0, 0.9, {Q: Count(1000, 800)})
    late, plain = (
        controller.step(State(), Report(0.9, (one,)))[0]
        for one in (replace(batch, in_time=0.5), batch)
    )
    assert late.account is not None
    assert late.account.sic() == {"q": pytest.approx(0.4)}
    costs = [state.streams["j"].clock.seconds(1000, 800) for state in (late, plain)]
    assert costs[0] == costs[1] > 0.0
