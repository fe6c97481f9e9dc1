"""The report tells of the drift of a query's concept; no Spark is needed for that."""

import pytest

from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Count, Stratum
from penstock.policy import get
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.totals import QueryTotals, Totals
from penstock.spark.site_report import SiteReport
from penstock.windows.concept import Concept
from penstock.windows.in_force import ConceptWindows
from penstock.windows.window import Window


def report(state: State) -> SiteReport:
    totals = Totals({"fares": QueryTotals(), "other": QueryTotals()})
    return totals.report({}, Ledger(None), Settings(policy=get("concept")), state, [], {})


def test_drift_is_in_the_report_of_the_query_with_the_concept() -> None:
    window = Window.of(Concept("1m"))
    a, b = (Stratum("fares", "s", name) for name in "ab")
    for clock, counts in ((10, {a: Count(9, 9), b: Count(1, 1)}), (70, {b: Count(5, 5)})):
        window = window.record(clock, counts)
    told = report(State(windows=ConceptWindows({"fares": window.at(130)})))
    drift = told["fares"].drift
    assert drift is not None
    assert (drift.groups, drift.overlap) == (1, 0.5)
    assert drift.distance == pytest.approx(0.9)
    assert told["other"].drift is None
    assert told.to_dict()["queries"][0]["drift"]["overlap"] == 0.5


def test_without_windows_there_is_none() -> None:
    assert report(State())["fares"].drift is None
