"""Who may change the terms of a query and the latency of a site: the site alone decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock import policy
from penstock.core.settings import QueryTerms, Settings
from penstock.federation.access import LOCAL_CALLER, READER
from penstock.federation.inside_messages import LatencyChange, TermsChange
from penstock.federation.messages import FragmentOrder, Place
from penstock.federation.refusals import RefusedError
from penstock.federation.site_changes import change_latency, change_terms
from penstock.federation.site_file import SiteFile
from penstock.spark.site import Site
from tests.federation.support import an_order

OWN_QUERY: dict[str, Any] = {"sql": "SELECT count(*) FROM machines", "sink": {"format": "noop"}}
FILE = SiteFile.model_validate(
    {
        "site": "rome",
        "directory": "rome",
        "operators": ["olga"],
        "refuses": {"submitters": ["mallory"]},
        "queries": {"rome-own": OWN_QUERY},
    }
)


@dataclass
class Terms:
    """What a site has of settings, without a Spark."""

    settings: Settings = field(default_factory=lambda: Settings(policy=policy.get("uniform")))
    latency: float | None = None

    def set_terms(self, query: str, terms: QueryTerms) -> None:
        self.settings = Settings(
            policy=self.settings.policy, terms={**self.settings.terms, query: terms}
        )

    def set_latency(self, seconds: float) -> None:
        self.latency = seconds


def ann_s_query() -> FragmentOrder:
    places = {"root": [Place(site="oslo", address="http://oslo.example:7101")]}
    return an_order("load", submitter="ann").model_copy(update={"places": places})


def change(caller: str, query: str = "load", **terms: float) -> QueryTerms:
    site = Terms()
    site.set_terms("load", QueryTerms(weight=2.0, guest=True))
    wish = TermsChange.model_validate({"query": query, **terms})
    change_terms(cast(Site, site), FILE, [ann_s_query()], wish, caller)
    return site.settings.terms[query]


@pytest.mark.parametrize("caller", ["ann", "oslo", "olga", "rome"])
def test_the_submitter_the_sites_of_the_query_and_operators_may_change_it(caller: str) -> None:
    changed = change(caller, floor=0.25)
    assert changed == QueryTerms(weight=2.0, floor=0.25, guest=True)  # and the rest stays


@pytest.mark.parametrize("caller", ["bob", "kyoto", "mallory", LOCAL_CALLER, READER])
def test_others_may_not(caller: str) -> None:
    with pytest.raises(RefusedError):
        change(caller, weight=9.0)


def test_a_query_of_the_site_s_own_is_for_its_operators() -> None:
    assert change("olga", "rome-own", weight=3.0).weight == 3.0
    for caller in ("ann", "oslo", LOCAL_CALLER):
        with pytest.raises(RefusedError):
            change(caller, "rome-own", weight=3.0)


def test_a_ceiling_of_one_is_none_and_one_below_the_floor_is_a_mistake() -> None:
    assert change("ann", ceiling=0.5).ceiling == 0.5
    assert change("ann", ceiling=1.0).ceiling == float("inf")
    with pytest.raises(ValueError, match="ceiling must not be below the floor"):
        change("ann", floor=0.5, ceiling=0.25)
    with pytest.raises(RefusedError, match="does not run here"):
        change("ann", "nobody", weight=2.0)


def test_the_latency_is_for_operators() -> None:
    site = Terms()
    answer = change_latency(cast(Site, site), FILE, LatencyChange(seconds=9.0), "olga")
    assert (answer.seconds, site.latency) == (9.0, 9.0)
    for caller in ("ann", "oslo", "mallory", LOCAL_CALLER, READER):
        with pytest.raises(RefusedError):
            change_latency(cast(Site, site), FILE, LatencyChange(seconds=1.0), caller)
    assert site.latency == 9.0
