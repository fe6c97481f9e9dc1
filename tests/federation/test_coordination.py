"""What coordinators say to whom and when, with the time as an argument."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.federation.client import payload
from penstock.federation.coordination import Coordination, Errand
from penstock.federation.messages import FragmentOrder, FragmentStatus, Place
from penstock.federation.refusals import RefusedError
from penstock.federation.sequences import Numbering, Sequences
from tests.federation.support import a_query

ROME, OSLO, KYOTO = (
    Place(site=name, address=f"http://{name}.example:7100") for name in ("rome", "oslo", "kyoto")
)
INTERVAL = 2.0


def a_root(query: str, **places: list[Place]) -> FragmentOrder:
    return FragmentOrder(query=a_query(query), fragment="root", places=places, catalog={})


def rounds(
    coordination: Coordination, roots: dict[str, FragmentOrder], sic: float | None, now: float
) -> list[Errand]:
    return coordination.errands(roots, coordination.updates(dict.fromkeys(roots, sic), now), now)


def test_every_other_site_of_a_query_is_told_once_a_round() -> None:
    coordination = Coordination("rome", INTERVAL)
    roots = {
        "both": a_root("both", root=[ROME], a=[OSLO], b=[KYOTO], c=[OSLO]),
        "one": a_root("one", root=[ROME], a=[OSLO]),
    }
    told = {
        errand.place.site: [(update.query, update.sic, update.at) for update in errand.updates]
        for errand in rounds(coordination, roots, 0.5, 100.0)
    }
    assert told == {
        "oslo": [("both", 0.5, 100.0), ("one", 0.5, 100.0)],
        "kyoto": [("both", 0.5, 100.0)],
    }


def test_a_query_of_which_nothing_is_known_is_not_told_of() -> None:
    coordination = Coordination("rome", INTERVAL)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO])}
    assert [errand.updates for errand in rounds(coordination, roots, None, 100.0)] == [()]


def test_numbers_grow_and_go_on_above_after_a_restart() -> None:
    numbers = []
    for start in (100.0, 101.0):  # each time a site that has just started
        coordination = Coordination("rome", INTERVAL)
        for step in range(3):
            news = coordination.updates({"a": 0.5, "b": 0.5}, start + step / 1000)
            numbers += [update.seq for update in news.values()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 100_000


def test_numbers_grow_while_the_clock_is_set_back() -> None:
    coordination = Coordination("rome", INTERVAL)
    first, second = (coordination.updates({"a": 0.5}, now)["a"].seq for now in (100.0, 50.0))
    assert second > first


@pytest.mark.parametrize("wrong", ["the sender", "the receiver", "both"])
@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_after_a_clock_was_an_hour_wrong_messages_come_through_at_once(
    wrong: str, by: float
) -> None:
    """The next message after the clock is right again, and not an hour later."""
    numbering, sequences = Numbering(), Sequences()
    through = []
    for second in range(100):
        ahead = by if 20 <= second < 60 else 0.0
        sender = 10_000.0 + second + (ahead if wrong != "the receiver" else 0.0)
        receiver = 10_000.0 + second + (ahead if wrong != "the sender" else 0.0)
        try:
            with sequences.next("rome", numbering.next(sender), receiver):
                through.append(second)
        except RefusedError:
            continue
    assert through[:20] == list(range(20))
    assert through[-39:] == list(range(61, 100))


def test_a_clock_that_was_set_back_lets_no_old_message_in() -> None:
    sequences = Sequences()
    with sequences.next("rome", 13_600_000, 13_600.0):
        pass
    with pytest.raises(RefusedError), sequences.next("rome", 9_000_000, 10_000.0):
        pass
    with sequences.next("rome", 10_000_000, 10_000.0):
        pass


def test_a_site_that_is_still_being_told_is_left_out() -> None:
    coordination = Coordination("rome", INTERVAL)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO], b=[KYOTO])}
    errands = {errand.place.site: errand for errand in rounds(coordination, roots, 0.5, 100.0)}
    coordination.done(errands["kyoto"], 0, 100.1, answered=True)
    later = [errand.place.site for errand in rounds(coordination, roots, 0.5, 102.0)]
    assert later == ["kyoto"]


def test_a_dead_site_is_called_less_and_less_and_always_again() -> None:
    coordination = Coordination("rome", INTERVAL)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO])}
    called = []
    for second in range(0, 200, 2):
        for errand in rounds(coordination, roots, 0.5, float(second)):
            called.append(second)
            coordination.done(errand, 1, float(second), answered=False)
    waits = [after - before for before, after in pairwise(called)]
    assert waits[:5] == [2, 4, 8, 16, 32]
    assert set(waits[5:]) == {32}
    assert coordination.failures == {"oslo": len(called)}
    (errand,) = rounds(coordination, roots, 0.5, 1000.0)
    coordination.done(errand, 0, 1000.0, answered=True)
    assert len(rounds(coordination, roots, 0.5, 1002.0)) == 1


def test_a_site_is_asked_what_runs_now_and_then_and_whenever_it_has_failed() -> None:
    coordination = Coordination("rome", INTERVAL)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO])}
    looks = []
    for second in range(0, 24, 2):
        (errand,) = rounds(coordination, roots, 0.5, float(second))
        looks.append(errand.look)
        if errand.look:
            coordination.missing(roots, OSLO.address, [], float(second))
        coordination.done(errand, int(second == 12), float(second), answered=True)
    assert [2 * n for n, look in enumerate(looks) if look] == [0, 10, 14]


def test_what_is_missing_for_long_is_deployed_anew_and_later_once_more() -> None:
    coordination = Coordination("rome", INTERVAL, patience_seconds=60)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO], b=[OSLO, KYOTO])}
    a_runs = FragmentStatus(id="a@load", query="load", fragment="a")

    def missing(now: float, *runs: FragmentStatus) -> list[tuple[str, int]]:
        found = coordination.missing(roots, OSLO.address, runs, now)
        return [(one.fragment, one.replica) for one in found]

    assert missing(0, a_runs) == []
    assert missing(30) == []
    assert missing(60) == [("b", 0)]
    assert missing(61, a_runs) == []
    assert missing(119) == []
    assert missing(120) == [("b", 0)]


def test_a_site_that_hosts_nothing_any_more_is_forgotten() -> None:
    coordination = Coordination("rome", INTERVAL, patience_seconds=60)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO])}
    (errand,) = rounds(coordination, roots, 0.5, 0.0)
    coordination.missing(roots, OSLO.address, [], 0.0)
    coordination.done(errand, 0, 0.0, answered=True)
    assert rounds(coordination, {}, 0.5, 2.0) == []
    rounds(coordination, roots, 0.5, 60.0)
    assert coordination.missing(roots, OSLO.address, [], 60.0) == []


def test_a_fragment_that_has_failed_is_as_good_as_missing() -> None:
    coordination = Coordination("rome", INTERVAL, patience_seconds=60)
    roots = {"load": a_root("load", root=[ROME], a=[OSLO])}
    failed = FragmentStatus(id="a@load", query="load", fragment="a", state="failed")
    assert coordination.missing(roots, OSLO.address, [failed], 0) == []
    (found,) = coordination.missing(roots, OSLO.address, [failed], 60)
    assert (found.fragment, found.place) == ("a", OSLO)


def test_a_query_costs_one_small_message_an_interval_and_site() -> None:
    """THEMIS (section 7.5) has 30 bytes each 250 ms, which is 120 bytes a second."""
    coordination = Coordination("rome", INTERVAL)
    longest = "q" * 64
    roots = {
        longest: a_root(longest, root=[ROME], a=[OSLO], b=[KYOTO], c=[OSLO]),
        "one": a_root("one", root=[ROME], a=[OSLO]),
    }
    sent, intervals = [], 50
    for interval in range(intervals):
        now = 1.8e9 + interval * INTERVAL + 1 / 3
        for errand in rounds(coordination, roots, 1 / 3, now):
            sent += [(errand.place.site, update) for update in errand.updates]
            coordination.done(errand, 0, now, answered=True)
    assert len(sent) == 3 * intervals
    sizes = {query: [len(payload(u)) for _, u in sent if u.query == query] for query in roots}
    assert max(sizes[longest]) < 300
    assert max(sizes["one"]) / INTERVAL < 120


def test_news_speaks_of_the_time_that_results_are_from() -> None:
    coordination = Coordination("rome", INTERVAL)
    news = coordination.updates({"old": 0.5, "new": 0.5, "other": 0.5}, 100.0, {"old": 26.0})
    assert {query: update.at for query, update in news.items()} == {
        "old": 74.0,
        "new": 100.0,
        "other": 100.0,
    }
    assert len({update.seq for update in news.values()}) == 3
    assert min(update.seq for update in news.values()) == 100_000  # when it was sent
