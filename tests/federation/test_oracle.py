"""The oracle: who is silent, which site is best, which query is poorest, and what has happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.federation.messages import FragmentStatus, Heartbeat, QueryStatus, SiteStatistics
from penstock.federation.oracle import Oracle
from penstock.federation.query_file import Ranking

INTERVAL = 2.0


def a_beat(
    site: str, queries: Mapping[str, float | None] | None = None, **figures: Any
) -> Heartbeat:
    return Heartbeat(
        site=site,
        address=f"http://{site}.example:7100",
        seq=1,
        interval=INTERVAL,
        statistics=SiteStatistics(**figures),
        queries=[QueryStatus(query=name, sic_now=sic) for name, sic in (queries or {}).items()],
    )


def test_a_site_is_silent_after_three_of_its_intervals_and_back_with_its_next_heartbeat() -> None:
    oracle = Oracle()
    assert [event.kind for event in oracle.hear(a_beat("rome"), 100.0)] == ["site-appeared"]
    assert oracle.find_silent(106.0) == []
    assert not oracle.sites(106.0)[0].silent
    (event,) = oracle.find_silent(106.5)
    assert (event.kind, event.at, event.text) == ("site-silent", 106.0, "rome is silent")
    assert oracle.find_silent(107.0) == []
    assert oracle.sites(107.0)[0].silent
    assert oracle.ranking("least-loaded", 107.0).sites == []
    (back,) = oracle.hear(a_beat("rome"), 120.0)
    assert (back.kind, back.text) == ("site-back", "rome is back after 20 s")
    assert not oracle.sites(120.0)[0].silent


def test_a_site_that_falls_silent_unseen_is_told_before_it_is_back() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome"), 100.0)
    told = oracle.hear(a_beat("rome"), 200.0)
    assert [(event.kind, event.at) for event in told] == [
        ("site-silent", 106.0),
        ("site-back", 200.0),
    ]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("least-loaded", ["idle", "full", "sheds", "overrun"]),
        ("highest-sic", ["idle", "sheds", "full", "overrun"]),
    ],
)
def test_sites_are_ranked_by_what_they_measured(by: Ranking, expected: list[str]) -> None:
    oracle = Oracle()
    measured: dict[str, dict[str, Any]] = {
        "sheds": {"utilisation": 0.9, "throughput": 90, "dropped": 10, "average_sic": 0.9},
        "idle": {"utilisation": 0.1, "throughput": 10},
        "overrun": {"utilisation": 0.9, "throughput": 90, "dropped": 810, "average_sic": 0.1},
        "full": {"utilisation": 0.9, "throughput": 90, "average_sic": 0.5},
    }
    for site, figures in measured.items():
        oracle.hear(a_beat(site, **figures), 0.0)
    assert [site.site for site in oracle.ranking(by, 1.0).sites] == expected


def test_round_robin_begins_with_another_site_each_time() -> None:
    oracle = Oracle()
    for site in ("a", "b", "c"):
        oracle.hear(a_beat(site), 0.0)
    orders = [[site.site for site in oracle.ranking("round-robin", 1.0).sites] for _ in range(4)]
    assert ["".join(order) for order in orders] == ["abc", "bca", "cab", "abc"]


def test_queries_come_poorest_first_with_jains_index_and_the_mean() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome", {"rich": 1.0, "unknown": None}), 0.0)
    oracle.hear(a_beat("oslo", {"poor": 0.5}), 0.0)
    answer = oracle.queries(1.0)
    assert [query.query for query in answer.queries] == ["poor", "rich", "unknown"]
    assert answer.mean_sic == pytest.approx(0.75)
    assert answer.jain == pytest.approx(1.5**2 / (2 * 1.25))


def test_old_news_counts_neither_in_jains_index_nor_before_fresh_news() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome", {"load": 1.0, "far": 0.2}), 0.0)
    oracle.hear(a_beat("oslo", {"load": 0.4}), 50.0)
    answer = oracle.queries(51.0)
    assert [(query.query, query.site, query.silent) for query in answer.queries] == [
        ("load", "oslo", False),
        ("far", "rome", True),
    ]
    assert (answer.jain, answer.mean_sic) == (1.0, 0.4)


def test_of_two_replicas_of_a_root_the_better_result_is_told() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome", {"load": 0.3}), 0.0)
    oracle.hear(a_beat("oslo", {"load": 0.6}), 0.0)
    (query,) = oracle.queries(1.0).queries
    assert (query.site, query.sic_now) == ("oslo", 0.6)


def test_overload_and_queries_are_told_when_they_begin_and_end() -> None:
    oracle = Oracle()
    kinds = [
        [(event.kind, event.query) for event in oracle.hear(beat, at)]
        for at, beat in enumerate(
            [
                a_beat("rome"),
                a_beat("rome", {"load": 1.0}, throughput=50, dropped=50),
                a_beat("rome", {"load": 0.5}, throughput=50, dropped=50),
                a_beat("rome", throughput=50),
            ]
        )
    ]
    assert kinds == [
        [("site-appeared", "")],
        [("overload-began", ""), ("query-appeared", "load")],
        [],
        [("overload-ended", ""), ("query-gone", "load")],
    ]


def test_a_fragment_that_fails_and_one_that_runs_again_are_told_once() -> None:
    def beat(state: str, trouble: str = "") -> Heartbeat:
        mine = FragmentStatus(
            id="root@load", query="load", fragment="root", state=state, trouble=trouble
        )
        return a_beat("rome").model_copy(update={"fragments": [mine]})

    oracle = Oracle()
    oracle.hear(beat("running"), 100.0)
    (failed,) = oracle.hear(beat("failed", "the link cannot be written"), 102.0)
    assert (failed.kind, failed.query) == ("fragment-failed", "load")
    assert failed.text == "rome cannot run root@load: the link cannot be written"
    assert oracle.hear(beat("failed", "the link cannot be written"), 104.0) == []
    (back,) = oracle.hear(beat("running"), 106.0)
    assert (back.kind, back.text) == ("fragment-back", "rome runs root@load again")
    assert oracle.hear(beat("stopped"), 108.0) == []


def test_a_site_is_overdue_before_it_is_silent() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome"), 100.0)
    for now, overdue, silent in ((103.0, False, False), (103.1, True, False), (106.1, True, True)):
        (site,) = oracle.sites(now)
        assert (site.overdue, site.silent) == (overdue, silent)


def a_part(fragment: str, arrived: float, admitted: float, rows: float, to: str) -> FragmentStatus:
    return FragmentStatus(
        id=f"{fragment}@load",
        query="load",
        fragment=fragment,
        arrived=arrived,
        admitted=admitted,
        rows=rows,
        sends_to=[to] if to else [],
    )


def test_what_flows_is_between_two_heartbeats_and_only_sources_count_for_a_query() -> None:
    oracle, beat = Oracle(), a_beat("rome", {"load": 0.5})
    first = [a_part("rome", 100, 60, 6, "root@load"), a_part("root", 6, 6, 1, "")]
    later = [a_part("rome", 300, 160, 26, "root@load"), a_part("root", 26, 20, 3, "")]
    oracle.hear(beat.model_copy(update={"fragments": first}), 100.0)
    assert [part.rows_per_second for part in oracle.sites(100.0)[0].fragments] == [0, 0]
    oracle.hear(beat.model_copy(update={"fragments": later}), 104.0)
    flows = oracle.sites(104.0)[0].fragments
    assert [(part.arrived_per_second, part.rows_per_second) for part in flows] == [
        (50, 5),
        (5, 0.5),
    ]
    (query,) = oracle.queries(104.0).queries
    assert (query.arrived, query.admitted, query.shed) == (300, 160, 140)
    again = [a_part("rome", 10, 10, 1, "root@load"), a_part("root", 1, 1, 0, "")]
    oracle.hear(beat.model_copy(update={"fragments": again}), 106.0)  # it was started anew
    assert oracle.sites(106.0)[0].fragments[0].rows_per_second == 0


def test_a_limit_that_holds_a_query_back_is_told_once_and_when_it_does_no_more() -> None:
    oracle = Oracle()
    held = a_beat("rome", held_back_by={"load": "maxOffsetsPerTrigger"})
    told = [oracle.hear(beat, now) for now, beat in ((1, held), (2, held), (3, a_beat("rome")))]
    kinds = [[event.kind for event in events if "held" in event.kind] for events in told]
    assert kinds == [["held-back"], [], ["held-back-no-more"]]
    assert "maxOffsetsPerTrigger" in told[0][-1].text


def test_sites_of_a_query_are_those_that_run_something_of_it_and_are_heard_of() -> None:
    oracle = Oracle()
    part = [a_part("rome", 1, 1, 1, "")]
    oracle.hear(a_beat("rome").model_copy(update={"fragments": part}), 100.0)
    oracle.hear(a_beat("oslo").model_copy(update={"fragments": part}), 90.0)
    oracle.hear(a_beat("kyoto"), 100.0)
    assert oracle.sites_of("load", 100.0) == ["rome"]
    assert oracle.address_of("rome", 100.0) == "http://rome.example:7100"
    assert oracle.address_of("oslo", 100.0) is None


def test_a_clock_that_is_set_back_hides_nobody_who_is_dead() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome"), 10_000.0)
    oracle.hear(a_beat("oslo"), 10_000.0)
    assert oracle.find_silent(6_400.0) == []
    oracle.hear(a_beat("oslo"), 6_406.5)
    assert [site.site for site in oracle.sites(6_407.0) if site.silent] == ["rome"]


def test_a_clock_that_is_set_forward_makes_sites_silent_until_they_speak() -> None:
    oracle = Oracle()
    oracle.hear(a_beat("rome"), 10_000.0)
    assert [event.kind for event in oracle.find_silent(13_600.0)] == ["site-silent"]
    assert [event.kind for event in oracle.hear(a_beat("rome"), 13_600.5)] == ["site-back"]
