"""A site lends what its file says, and its own queries keep the rest."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import policy as policies
from penstock.core.controller import Controller
from penstock.core.demand import Demand, Queries, is_blind, keeps_paid, levels_sic
from penstock.core.settings import QueryTerms, Settings
from penstock.core.state import State
from penstock.core.types import CoordinatorNews, Plan, Report, Stratum
from penstock.federation.lending import Lending
from penstock.testing import Cost, Plant

GUESTS = [True, True, False]


def demand(tuples: list[float], sic: list[float]) -> Demand:
    return Demand.of(Queries.of(np.zeros(3), guest=GUESTS), [0, 1, 2], tuples, sic)


def spent_by_guests(asked: Demand, rates: np.ndarray) -> float:
    return float((asked.tuples * asked.cost * rates)[asked.queries.guest[asked.query]].sum())


def test_a_guest_that_wants_all_gets_what_is_lent() -> None:
    asked = demand([900.0, 900.0, 900.0], [1e-3, 1e-3, 1e-3])
    rates = Lending(policies.get("balance-sic"), 0.2).rates(asked, 1000.0)
    assert spent_by_guests(asked, rates) == pytest.approx(200.0)
    assert rates[2] == pytest.approx(800 / 900)
    assert rates[0] == pytest.approx(rates[1])


def test_what_own_queries_do_not_want_goes_to_guests() -> None:
    asked = demand([900.0, 900.0, 100.0], [1e-3, 1e-3, 1e-3])
    rates = Lending(policies.get("balance-sic"), 0.2).rates(asked, 1000.0)
    assert rates[2] == 1.0
    assert spent_by_guests(asked, rates) == pytest.approx(900.0)


def test_within_the_limit_the_policy_is_untouched() -> None:
    asked = demand([900.0, 900.0, 900.0], [1e-3, 1e-3, 1e-3])
    policy = policies.get("balance-sic")
    assert Lending(policy, 0.9).rates(asked, 1000.0).tolist() == pytest.approx(
        policy.rates(asked, 1000.0).tolist()
    )


amounts = st.floats(0.0, 1e4)


@given(
    st.lists(amounts, min_size=3, max_size=3),
    st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3),
    st.floats(1.0, 2e4),
    st.floats(0.0, 1.0),
    st.sampled_from(["balance-sic", "balance-sic-paid", "max-min", "uniform"]),
)
def test_law_4_and_9_hold_for_any_share_that_is_lent(
    tuples: list[float], sic: list[float], capacity: float, share: float, name: str
) -> None:
    asked = demand(tuples, sic)
    rates = Lending(policies.get(name), share).rates(asked, capacity)
    assert ((rates >= 0) & (rates <= 1 + 1e-9)).all()
    assert asked.spent(rates) <= max(capacity, 0) * (1 + 1e-6)
    own = tuples[2]
    limit = max(share * capacity, capacity - own)
    assert spent_by_guests(asked, rates) <= limit * (1 + 1e-6) or asked.total_cost() <= capacity
    wanted = min(own, (1 - share) * capacity)  # balance may give own queries less than that only
    if name == "max-min":  # where it gives guests less than the limit, too
        assert own * rates[2] >= min(wanted, capacity / 3) * (1 - 1e-6)


@pytest.mark.parametrize("name", sorted(policies.available()))
def test_it_says_of_itself_what_its_policy_says(name: str) -> None:
    """Else random shedding would have its rates rounded by what tuples are worth."""
    policy = policies.get(name)
    lending = Lending(policy, 0.5)
    for says in (is_blind, levels_sic, keeps_paid):
        assert says(lending) == says(policy)


OWN, STRANGER = Stratum("own", "s"), Stratum("stranger", "s")
COST = Cost(fixed=0.05, arriving=1e-8, admitting=4e-5)


class Misled(Controller):
    """Hears before each batch that the stranger's result has come to nothing so far."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        lie = {"stranger": CoordinatorNews(0.0, report.now)}
        return super().step(state, replace(report, told=lie))


def own_sic(share: float, rates: dict[Stratum, float]) -> float:
    """Runs a site that lends a share, and returns the SIC of its own query when it has settled."""
    settings = Settings(
        policy=Lending(policies.get("balance-sic-paid"), share),
        terms={"stranger": QueryTerms(weight=1e6, guest=True)},
    )
    runs = Plant(rates, COST).run(Misled(settings), batches=60)[30:]
    return sum(r.counts[OWN].admitted for r in runs) / sum(r.counts[OWN].arrived for r in runs)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_law_9_a_stranger_that_would_take_all_leaves_a_site_the_share_that_its_file_keeps(
    share: float,
) -> None:
    """However much the stranger sends, weighs, and is said to lack."""
    alone = own_sic(share, {OWN: 40_000.0})
    assert alone < 0.8  # the site is overloaded already
    beside = own_sic(share, {OWN: 40_000.0, STRANGER: 400_000.0})
    assert beside == pytest.approx((1 - share) * alone, abs=0.05)
    if share:  # and the stranger would have taken more, had the file allowed it
        assert own_sic(1.0, {OWN: 40_000.0, STRANGER: 400_000.0}) < beside - 0.05
