"""A policy may be a user's own: the controller checks its rates as they come."""

from typing import Any, ClassVar

import numpy as np
import pytest

from penstock.core.controller import Controller
from penstock.core.demand import Demand, Policy, Queries, checked_rates, is_blind, keeps_paid
from penstock.core.settings import Settings
from penstock.core.types import Stratum
from penstock.errors import PenstockError
from penstock.policy.balance_sic import BalanceSic
from penstock.policy.balance_sic_paid import BalanceSicPaid
from penstock.policy.uniform import Uniform
from penstock.testing import Cost, Plant

THREE = Demand.of(Queries.of([0.0]), [0, 0, 0], 10.0, 0.01)


class Scripted:
    """Gives the same answer to every demand."""

    name: ClassVar[str] = "scripted"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def rates(self, demand: Demand, capacity: float) -> Any:
        del demand, capacity
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5, 1.5, 0.5], "rates between 0 and 1, such as 0.5; got the rate 1.5"),
        ([0.5, 0.5, -0.1], "rates between 0 and 1, such as 0.5; got the rate -0.1"),
        ([0.5, float("nan"), 0.5], "rates between 0 and 1, such as 0.5; got the rate nan"),
        ([float("inf"), 0.5, 0.5], "rates between 0 and 1, such as 0.5; got the rate inf"),
        ([0.5, 0.5], r"one rate for each stratum .* the shape \(3,\); got the shape \(2,\)"),
        (0.5, r"one rate for each stratum .* the shape \(3,\); got the shape \(\)"),
        ([[0.5, 0.5, 0.5]], r"one rate for each stratum .*; got the shape \(1, 3\)"),
        (None, r"policy 'scripted' must answer"),
        ("much", r"an array of rates, such as numpy.full\(len\(demand\), 0.5\); got 'much'"),
        ([0.5, [0.5], 0.5], r"an array of rates"),
    ],
)
def test_wrong_rates_are_refused_with_the_policy_named(answer: object, message: str) -> None:
    with pytest.raises(PenstockError, match=r"^policy 'scripted' must answer") as refused:
        checked_rates(Scripted(answer), THREE, 10.0)
    assert refused.match(message)


def test_right_rates_pass_as_they_are() -> None:
    for answer in ([0.0, 0.5, 1.0], np.array([0.0, 0.5, 1.0]), (0, 0.5, 1)):
        assert checked_rates(Scripted(answer), THREE, 10.0).tolist() == [0.0, 0.5, 1.0]


def test_a_policy_without_a_name_is_named_by_its_class() -> None:
    class Nameless:
        def rates(self, demand: Demand, capacity: float) -> Any:
            return np.full(len(demand), 2.0 * (capacity > 0))

    nameless: Any = Nameless()
    with pytest.raises(PenstockError, match=r"^policy 'Nameless' must answer"):
        checked_rates(nameless, THREE, 10.0)


@pytest.mark.parametrize("answer", [1.5, -0.5, float("nan")])
def test_the_controller_refuses_wrong_rates(answer: float) -> None:
    plant = Plant({Stratum("q", "s"): 100_000.0}, Cost(0.2, 1e-7, 2e-5))
    with pytest.raises(
        PenstockError, match=r"^policy 'scripted' must answer rates between 0 and 1"
    ):
        plant.run(Controller(Settings(policy=Scripted([answer]))), batches=20)


def test_what_a_policy_says_of_itself() -> None:
    policies: list[Policy] = [BalanceSic(), BalanceSicPaid(), Uniform()]
    assert [keeps_paid(policy) for policy in policies] == [False, True, False]
    assert [is_blind(policy) for policy in policies] == [False, False, True]
