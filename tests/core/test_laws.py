"""Laws of the core, as properties: see docs/laws.md."""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.account import Account
from penstock.core.controller import Controller
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import CoordinatorNews, Count, Plan, Report, Stratum
from penstock.policy.balance_sic import BalanceSic
from penstock.testing import Cost, Plant, Run

LATENCY_SECONDS = 2.0
BATCHES_TO_SETTLE = 10

COST = Cost(fixed=0.2, arriving=2e-7, admitting=1e-5)
TUPLES_A_SECOND = {Stratum(query, "s"): 100_000.0 for query in ("a", "b", "c")}

amounts = st.integers(0, 10**9)
counts = st.builds(lambda admitted, shed: Count(admitted + shed, admitted), amounts, amounts)
strata = st.builds(
    Stratum, st.sampled_from("pq"), st.sampled_from("ab"), st.sampled_from(["", "x"])
)


@settings(max_examples=150)
@given(st.lists(st.dictionaries(strata, counts), max_size=8))
def test_law_3_sic_is_1_exactly_when_nothing_was_shed(told: list[dict[Stratum, Count]]) -> None:
    account = Account(1.0, 10.0)
    for second, batch in enumerate(told):
        account = account.record(float(second), batch)
    sent_some, lost_some = set[str](), set[str]()
    for batch in told:
        sent_some |= {stratum.query for stratum, count in batch.items() if count.arrived}
        lost_some |= {s.query for s, count in batch.items() if count.admitted < count.arrived}
    sic = account.sic()
    assert all(0.0 <= value <= 1.0 for value in sic.values())
    assert {query for query in sent_some if sic[query] == 1.0} == sent_some - lost_some


@dataclass(frozen=True)
class Misled(Controller):
    """A controller whose coordinators say these things, over and over."""

    lies: tuple[dict[str, CoordinatorNews], ...] = field(default=({},))

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        told = self.lies[int(report.now) % len(self.lies)]
        return super().step(state, replace(report, told=told))

    @staticmethod
    def play(lies: list[dict[str, CoordinatorNews]]) -> list[Run]:
        controller = Misled(
            Settings(policy=BalanceSic(), interval=1.0, latency=LATENCY_SECONDS), lies=tuple(lies)
        )
        return Plant(TUPLES_A_SECOND, COST).run(controller, batches=30)


def lists_of_news(sic: st.SearchStrategy[float]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """News of the past and of the future, of queries that are here and of one that is not."""
    news = st.builds(CoordinatorNews, sic, st.floats() | st.floats(0, 40))
    return st.lists(st.dictionaries(st.sampled_from("abcz"), news), min_size=1, max_size=5)


@settings(max_examples=40)
@given(lists_of_news(st.floats() | st.floats(0, 1)))
def test_law_9_whatever_coordinators_say_the_latency_holds(
    lies: list[dict[str, CoordinatorNews]],
) -> None:
    for run in Misled.play(lies)[BATCHES_TO_SETTLE:]:
        assert run.latency <= LATENCY_SECONDS
        assert ((run.plan.rates > 0.0) & (run.plan.rates <= 1.0)).all()


@settings(max_examples=40)
@given(lists_of_news(st.floats().filter(lambda sic: not 0.0 <= sic <= 1.0)))
def test_law_9_news_that_cannot_be_true_changes_nothing(
    lies: list[dict[str, CoordinatorNews]],
) -> None:
    for misled, plain in zip(Misled.play(lies), Misled.play([{}]), strict=True):
        assert misled.plan.rates.tolist() == plain.plan.rates.tolist()
