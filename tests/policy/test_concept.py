"""The policy in the controller's loop: fair between queries, and no group disappears."""

import numpy as np
import pytest

from penstock.core.account import Account
from penstock.core.controller import Controller
from penstock.core.demand import Demand, Filling, Queries
from penstock.core.settings import QueryTerms, Settings
from penstock.core.types import OTHER_GROUPS, Plan, Strata, Stratum
from penstock.policy import get
from penstock.testing import Cost, Plant, Run
from penstock.windows.concept import Concept
from penstock.windows.in_force import ConceptWindows

FLIGHTS = {Stratum("flights", "s", f"a{n}"): 20_000.0 / (n + 1) ** 2 for n in range(40)}
OTHER = {Stratum("other", "s"): 20_000.0}


def overloaded(policy: str, concept: Concept | None) -> list[Run]:
    """About twice what the plant can do in an interval."""
    settings = Settings(policy=get(policy), terms={"flights": QueryTerms(concept=concept)})
    plant = Plant({**FLIGHTS, **OTHER}, Cost(fixed=0.1, arriving=1e-6, admitting=4e-5), noise=0.02)
    return plant.run(Controller(settings, windows=ConceptWindows()), batches=60)


def kept(runs: list[Run], query: str) -> dict[str, float]:
    came: dict[str, list[int]] = {}
    for run in runs[20:]:
        for stratum, count in run.counts.items():
            if stratum.query == query:
                total = came.setdefault(stratum.group, [0, 0])
                total[0] += count.arrived
                total[1] += count.admitted
    return {group: admitted / max(arrived, 1) for group, (arrived, admitted) in came.items()}


def test_rare_groups_pass_and_common_ones_pay() -> None:
    runs = overloaded("concept", Concept(20))
    rates = kept(runs, "flights")
    assert all(rates[f"a{n}"] > 0.95 for n in range(8, 40))
    assert rates["a0"] < 0.65
    assert rates["a0"] > 0.1
    flat = kept(overloaded("balance-sic", None), "flights")
    assert max(flat.values()) - min(flat.values()) < 0.2  # what it is compared with


def test_queries_still_share_fairly_and_latency_holds() -> None:
    runs = overloaded("concept", Concept(20))
    shares = []
    for query in ("flights", "other"):
        counts = [c for run in runs[20:] for s, c in run.counts.items() if s.query == query]
        shares.append(sum(c.admitted for c in counts) / sum(c.arrived for c in counts))
    assert shares[0] == pytest.approx(shares[1], rel=0.15)
    late = [run for run in runs[20:] if run.latency > 2.0]
    assert len(late) <= 2


def test_the_plan_lists_only_what_is_thinned() -> None:
    plan = overloaded("concept", Concept(20))[-1].plan
    listed = [stratum for stratum in plan.strata if stratum.query == "flights"]
    assert 0 < len(listed) < 10
    assert plan.rate(Stratum("flights", "s", "never seen")) == 1.0
    assert plan.rate(Stratum("another", "s")) == plan.default_rate < 1.0


def test_a_query_without_overload_and_goal_is_not_touched() -> None:
    """Law 6."""
    settings = Settings(policy=get("concept"), terms={"flights": QueryTerms(concept=Concept(20))})
    plant = Plant(FLIGHTS, Cost(fixed=0.1, arriving=1e-7, admitting=1e-6))
    controller = Controller(settings, windows=ConceptWindows())
    assert all(run.plan.open for run in plant.run(controller, batches=30))


def test_quotas_in_one_window() -> None:
    """Budget 60 of 100: the small group whole, 25 and 25 of the others."""
    demand = Demand.of(Queries.of([0.0]), [0, 0, 0], [10.0, 40.0, 50.0], 0.01)
    rates = get("concept").rates(demand, 60.0)
    assert rates * demand.tuples == pytest.approx([10.0, 25.0, 25.0])


def test_what_was_kept_before_counts() -> None:
    """Two groups of which the first has had its share of the window."""
    filling = Filling(np.array([50.0, 50.0]), np.array([30.0, 0.0]), np.full(2, 50.0), np.ones(2))
    demand = Demand(
        Queries.of([0.0]), np.zeros(2, dtype=np.int64), np.full(2, 50.0), np.full(2, 0.01),
        np.ones(2), np.zeros(2, dtype=np.bool_), filling,
    )  # fmt: skip
    rates = get("concept").rates(demand, 40.0)
    assert demand.spent(rates) == pytest.approx(40.0)
    assert rates[1] > 3 * rates[0] > 0


def test_strata_that_nothing_came_of_can_be_listed() -> None:
    seen, new = Stratum("q", "s", "a"), Stratum("q", "s", "b")
    account = Account(1.0, 10.0).slide(5.0).including([seen, new]).including([new])
    assert account.strata == Strata([seen, new])
    assert account.arrived().tolist() == [0.0, 0.0]
    assert account.by_query().sic.tolist() == [0.0]


def test_a_short_plan_answers_as_the_long_one() -> None:
    strata = Strata(Stratum(q, "s", g) for q in "xy" for g in "ab")
    plan = Plan(1, strata, np.array([1.0, 0.5, 1.0, 0.5]), np.ones(4), 0.7)
    short = plan.short("x")
    assert short.strata == strata[1:]
    assert [short.rate(s) for s in strata] == [plan.rate(s) for s in strata]
    assert not short.open


def test_small_groups_are_thinned_only_where_they_alone_are_too_many() -> None:
    """With most of the stream in groups that come once, the interval is held all the same."""
    small, big = Stratum("flights", "s", OTHER_GROUPS), Stratum("flights", "s", "big")
    settings = Settings(policy=get("concept"), terms={"flights": QueryTerms(concept=Concept(20))})
    controller = Controller(settings, windows=ConceptWindows())
    cost = Cost(fixed=0.1, arriving=1e-6, admitting=4e-5)
    runs = Plant({small: 30_000.0, big: 8_000.0}, cost).run(controller, batches=60)
    assert runs[-1].plan.default_of("flights") < 0.9
    assert all(run.latency <= 2.0 for run in runs[20:])
    light = Plant({small: 8_000.0, big: 8_000.0}, Cost(0.1, 1e-6, 7e-5))
    assert light.run(controller, batches=60)[-1].plan.default_of("flights") == 1.0
