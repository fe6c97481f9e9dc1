"""Where fragments go: to their sources, or by load, in turn, by SIC, or where somebody says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.federation.fragment_plan import PlannedFragment, SplitQuery
from penstock.federation.messages import LentSource, RankedSite, SiteStatistics
from penstock.federation.placing import WAYS, place

SOURCE = LentSource(columns="ts TIMESTAMP", time="ts")


def site(name: str, utilisation: float = 0.0, sic: float | None = None) -> RankedSite:
    statistics = SiteStatistics(utilisation=utilisation, average_sic=sic, capacity=100.0)
    address = f"http://127.0.0.1:{7000 + len(name)}"
    return RankedSite(
        site=name, address=address, statistics=statistics, sources={"machines": SOURCE}
    )


SITES = [site("rome", 0.9, 0.9), site("oslo", 0.1, 0.4), site("kyoto", 0.5, 1.0)]


def query(*free: str) -> SplitQuery:
    leaf = PlannedFragment("leaf", "rome", "partial", ("machines",), batch_sql="SELECT 1")
    others = [PlannedFragment(name, "any", "merge", inputs={"links": ("leaf",)}) for name in free]
    return SplitQuery("q", (leaf, *others), 1)


def chosen(found: SplitQuery, by: str, wanted: Any = None, **more: Any) -> dict[str, list[str]]:
    places = place(found, SITES, by, wanted or {}, **more)
    return {name: [each.site for each in given] for name, given in places.items()}


def test_a_fragment_with_a_source_is_where_the_source_is() -> None:
    found = place(query("root"), SITES, "least-loaded", {})
    assert found["leaf"][0].site == "rome"
    assert found["leaf"][0].address == SITES[0].address
    assert list(found) == ["leaf", "root"]


def test_the_ways_to_choose() -> None:
    assert chosen(query("root"), "least-loaded")["root"] == ["oslo"]
    assert chosen(query("root"), "highest-sic")["root"] == ["kyoto"]
    assert chosen(query("root"), "round-robin", round_robin_start=2)["root"] == ["rome"]
    assert chosen(query("a", "b", "root"), "round-robin", round_robin_start=1) == {
        "leaf": ["rome"],
        "a": ["oslo"],
        "b": ["rome"],
        "root": ["kyoto"],
    }


def test_the_user_says_a_site_or_a_way() -> None:
    assert chosen(query("root"), "least-loaded", {"root": "rome"})["root"] == ["rome"]
    assert chosen(query("root"), "least-loaded", {"root": "highest-sic"})["root"] == ["kyoto"]


def test_what_was_placed_counts_as_load() -> None:
    loads = {"a": 30.0, "b": 30.0, "c": 1.0}
    found = chosen(query("a", "b", "c", "root"), "least-loaded", loads=loads)
    assert [found[name] for name in ("a", "b", "c")] == [["oslo"], ["oslo"], ["kyoto"]]


def test_replicas_are_at_different_sites() -> None:
    found = chosen(query("root"), "least-loaded", {"root": "rome"}, replicas={"root": 3})
    assert found["root"] == ["rome", "oslo", "kyoto"]
    with pytest.raises(PenstockError, match="there must be a site for each; got 3 that live"):
        chosen(query("root"), "least-loaded", replicas={"root": 4})


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.sampled_from(WAYS),
    st.integers(0, 9),
)
def test_every_fragment_has_one_place(
    names: list[str], loads: list[float], by: str, start: int
) -> None:
    sites = [site(name, load) for name, load in zip(("rome", "oslo", "kyoto"), loads, strict=True)]
    found = place(query(*names, "root"), sites, by, {}, start)
    assert list(found) == ["leaf", *names, "root"]
    assert all(len(places) == 1 for places in found.values())
    assert found == place(query(*names, "root"), sites[::-1], by, {}, start)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"by": "best"}, "by must be one of least-loaded, round-robin, highest-sic; got 'best'"),
        ({"wanted": {"roof": "rome"}}, "place.roof: unknown fragment; did you mean 'root'"),
        ({"wanted": {"root": "roma"}}, "site 'roma' is unknown or gone; did you mean 'rome'"),
        ({"wanted": {"leaf": "oslo"}}, "place.leaf: it has to run at 'rome'; got 'oslo'"),
        ({"ranked": []}, "no site lives"),
        ({"ranked": SITES[1:]}, "fragment 'leaf': the site 'rome' is unknown or gone"),
    ],
)
def test_mistakes_are_told(more: dict[str, Any], message: str) -> None:
    given = {"ranked": SITES, "by": "least-loaded", "wanted": {}} | more
    with pytest.raises(PenstockError, match=message):
        place(query("root"), **given)


def test_a_source_that_is_not_lent_is_told() -> None:
    leaf = PlannedFragment("leaf", "rome", "partial", ("machine",), batch_sql="SELECT 1")
    with pytest.raises(PenstockError, match="lends no 'machine'; did you mean 'machines'"):
        place(SplitQuery("q", (leaf,), 1), SITES, "least-loaded", {})
