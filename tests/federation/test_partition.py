"""The load of fragments, and where a query is cut by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.federation.messages import LentSource
from penstock.federation.partition import (
    COEFFICIENTS,
    coefficient_of,
    copies_needed,
    loads_of,
    where_to_cut,
)
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split

COLUMNS = "ts TIMESTAMP, k STRING, cpu DOUBLE"
CATALOG = {
    "rome.machines": LentSource(columns=COLUMNS, time="ts", rate=1000.0),
    "oslo.machines": LentSource(columns=COLUMNS, time="ts", rate=400.0),
}
UNION = "rome.machines UNION ALL oslo.machines"


def query(select: str, window: str = "'1 second'", **more: Any) -> Any:
    sql = f"SELECT window.start, {select} FROM {UNION} GROUP BY window(ts, {window})"
    return split(FederatedQuery.model_validate({"query": "q", "sql": sql, **more}), CATALOG)


def test_a_load_is_the_rate_times_the_coefficients() -> None:
    """By hand: reading 1, the group 0.5, and six columns of 0.05; one row a second is sent."""
    found = query("count(*) AS c, sum(cpu) AS s")
    leaf = found.fragment("rome")
    assert coefficient_of(leaf) == pytest.approx(1.0 + 0.5 + 5 * 0.05)
    loads = loads_of(found, CATALOG, groups=1.0, interval=2.0)
    assert loads["rome"].input == 1000.0
    assert loads["rome"].output == 1.0
    assert loads["rome"].load == pytest.approx(1000 * 1.75 + COEFFICIENTS["send"])
    assert loads["root"].input == 2.0


def test_partial_results_save_the_root_its_load() -> None:
    merged = loads_of(query("avg(cpu) AS a"), CATALOG)
    forwarded = loads_of(query("median(cpu) AS a"), CATALOG)
    assert forwarded["root"].input == 1400.0
    assert merged["root"].load < forwarded["root"].load / 10


def test_windows_that_slide_cost_more() -> None:
    once, often = (
        coefficient_of(query("median(cpu) AS a", window).fragment("root"))
        for window in ("'1 second'", "'10 seconds', '1 second'")
    )
    assert often - COEFFICIENTS["read"] == pytest.approx(10 * (once - COEFFICIENTS["read"]))


def test_copies_share_what_is_routed() -> None:
    sql = f"SELECT k, avg(cpu) AS a FROM {UNION} GROUP BY window(ts, '1 second'), k"
    given = {"query": "q", "sql": sql, "partition": {"copies": 4, "by": "k"}}
    found = split(FederatedQuery.model_validate(given), CATALOG)
    loads = loads_of(found, CATALOG, groups=100.0)
    assert loads["copy-0"].input == pytest.approx((100 + 100) / 4)


def test_a_site_without_room_for_aggregates_forwards() -> None:
    found = query("avg(cpu) AS a, stddev(cpu) AS d")
    loads = loads_of(found, CATALOG)
    decided = where_to_cut(found, loads, {"rome": 1550.0, "oslo": 5000.0, "kyoto": 9.0})
    assert decided.forwarding == ("rome",)
    assert decided.at_source == ("oslo",)
    assert decided.copies == 1
    decided = where_to_cut(found, loads, {"rome": 10.0, "oslo": 5000.0})
    assert decided.forwarding == ()


def test_a_merge_that_fits_nowhere_is_cut() -> None:
    found = query("median(cpu) AS a")
    loads = loads_of(found, CATALOG)
    need = loads["root"].load
    assert where_to_cut(found, loads, {"a": need, "b": 1.0}).copies == 1
    assert where_to_cut(found, loads, {"a": 0.6 * need, "b": 0.5 * need}).copies == 2


@given(st.floats(0.1, 1e6), st.lists(st.floats(0, 1e6), max_size=12))
def test_the_fewest_copies_that_fit_are_taken(load: float, free: list[float]) -> None:
    count = copies_needed(load, free)
    rooms = sorted(free, reverse=True)

    def fits(number: int) -> bool:
        return number <= len(rooms) and all(load / number <= room for room in rooms[:number])

    assert 1 <= count <= max(1, len(free))
    if any(fits(number) for number in range(1, len(rooms) + 1)):
        assert fits(count)
        assert not any(fits(number) for number in range(1, count))
