"""Classes of partial results, at the gate of a link."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.core.types import Plan, Strata, Stratum
from penstock.spark.elsewhere import rate_of_new_class
from penstock.spark.gate.codec import PlanCodec
from penstock.spark.gate.keys import Keys
from penstock.spark.gate.strata import KnownStrata
from penstock.spark.gate.wire import thresholds

RATES = {
    Stratum("mine", "machines"): 0.2,
    Stratum("mine", "links of root~20"): 1.0,
    Stratum("mine", "links of root~21"): 0.9,
    Stratum("other", "links of root~20"): 0.1,
}
A_COLUMN: Any = object()


def plan() -> Plan:
    rates = np.array(list(RATES.values()))
    return Plan(1, Strata(RATES), rates, np.ones(rates.size), default_rate=0.3)


def test_a_class_that_the_plan_does_not_know_is_admitted_as_the_others_of_its_query() -> None:
    assert rate_of_new_class(plan(), "mine") == pytest.approx(0.95)
    assert rate_of_new_class(plan(), "unknown") == 0.3


@pytest.mark.parametrize(
    ("source", "of_fragment", "rate"),
    [(A_COLUMN, True, 0.95), ("machines", True, 0.3), (A_COLUMN, False, 0.3)],
    ids=["a link", "a source of a fragment", "sources in a column"],
)
def test_only_the_gate_of_a_link_does_so(source: Any, of_fragment: bool, rate: float) -> None:
    codec = PlanCodec(Keys("mine", source, (), ()), KnownStrata(10), None, of_fragment)
    shipment = codec.encode(plan(), counting=True)
    assert shipment.thresholds[0] == thresholds(np.array([rate]))[0]
