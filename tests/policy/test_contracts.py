"""Every policy passes the shared checks; a new file is found by itself."""

import importlib
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from penstock import policy as policies
from penstock.core.demand import Demand
from penstock.core.types import Floats
from penstock.errors import PenstockError
from penstock.testing import PolicyCheck, check_policy, policy_checks
from tests.reference.balance_sic_batch import BalanceSicBatch
from tests.reference.balance_sic_tuple import BalanceSicTuple


@pytest.mark.parametrize("check", policy_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", sorted(policies.available()))
def test_policy(name: str, check: PolicyCheck) -> None:
    """Among them laws 4, 6 and 8: each check says which."""
    check(policies.get(name))


@pytest.mark.parametrize("check", policy_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("policy", [BalanceSicBatch(), BalanceSicTuple()], ids=lambda p: p.name)
def test_published_form(policy: policies.Policy, check: PolicyCheck) -> None:
    check(policy)


def test_the_policies_of_the_design_are_there() -> None:
    everyone = {"balance-sic", "balance-sic-paid", "concept", "max-min", "uniform"}
    assert set(policies.available()) >= everyone


def test_a_policy_in_a_new_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "everything.py").write_text(
        "import numpy as np\n"
        "class Everything:\n"
        "    name = 'everything'\n"
        "    def rates(self, demand, capacity):\n"
        "        return np.ones(len(demand))\n"
    )
    monkeypatch.setattr(policies, "__path__", [*policies.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "penstock.policy.everything", None)
    monkeypatch.delitem(sys.modules, "penstock.policy.everything")
    importlib.invalidate_caches()
    found = policies.get("everything")
    with pytest.raises(AssertionError, match="spends"):
        check_policy(found)


class Wasteful:
    name: ClassVar[str] = "wasteful"

    def rates(self, demand: Demand, capacity: float) -> Floats:
        total = demand.total_cost()
        return np.full(len(demand), 1.0 if total <= capacity else capacity / total / 2)


def test_the_checks_can_fail() -> None:
    with pytest.raises(AssertionError, match="leaves"):
        check_policy(Wasteful())


def test_an_unknown_policy_gets_a_suggestion() -> None:
    with pytest.raises(PenstockError, match="did you mean 'balance-sic'"):
        policies.get("balance_sic")
