"""What a site refuses of an order, beside its SQL."""

from __future__ import annotations

import pytest

from penstock.federation.autonomy import refuse_name_of_another, refuse_place
from penstock.federation.fragment_plan import PlannedFragment
from penstock.federation.messages import FragmentOrder
from penstock.federation.query_file import FederatedQuery
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.site_file import SiteFile

ROME = SiteFile(site="rome", directory="state")


def order_of(fragment: str, weight: float = 1.0, name: str = "load") -> FragmentOrder:
    query = FederatedQuery(query=name, sql="SELECT * FROM rome.machines", weight=weight)
    return FragmentOrder(query=query, fragment=fragment, places={}, catalog={})


def test_a_stranger_does_not_add_fragments_to_the_query_of_another() -> None:
    with pytest.raises(RefusedError, match="no other query has here") as refused:
        refuse_name_of_another(order_of("evil", weight=1e6), [order_of("root")])
    assert refused.value.reason is Reason.CONFLICT
    refuse_name_of_another(order_of("leaf"), [order_of("root"), order_of("root", 2.0, "other")])


def test_a_fragment_of_another_site_does_not_read_the_sources_of_this_one() -> None:
    with pytest.raises(RefusedError, match="has to run at 'oslo', and this site is 'rome'"):
        refuse_place(ROME, PlannedFragment("leaf", "oslo", "forward", ("machines",)))
    for site in ("rome", "ROME", "any"):
        refuse_place(ROME, PlannedFragment("leaf", site, "forward", ("machines",)))
