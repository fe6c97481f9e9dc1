"""SIC over the sliding STW, against an account that keeps everything."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.account import Account
from penstock.core.declared import ANY_QUERY, DeclaredSources
from penstock.core.types import Count, Strata, Stratum

A, B = Stratum("q", "a"), Stratum("q", "b")


def test_sic_of_two_sources() -> None:
    account = Account(1.0, 10.0).record(0.0, {A: Count(100, 50), B: Count(10, 10)})
    assert account.sic() == {"q": pytest.approx(0.75)}


def test_groups_of_a_source_count_by_their_tuples() -> None:
    counts = {Stratum("q", "s", "x"): Count(90, 0), Stratum("q", "s", "y"): Count(10, 10)}
    assert Account(1.0, 10.0).record(0.0, counts).sic() == {"q": pytest.approx(0.1)}


def test_a_tuple_is_worth_one_over_what_its_source_sends_in_a_whole_stw() -> None:
    account = Account(1.0, 10.0).record(0.0, {A: Count(100, 100), B: Count(10, 10)})
    worth = dict(zip(account.strata, account.by_query().tuple_sic, strict=True))
    assert worth == pytest.approx({A: 1 / 2000, B: 1 / 200})  # one of ten slots was seen
    for second in range(1, 10):
        account = account.record(second, {A: Count(100, 100), B: Count(10, 10)})
    worth = dict(zip(account.strata, account.by_query().tuple_sic, strict=True))
    assert worth == pytest.approx({A: 1 / 2000, B: 1 / 200})


def test_a_stratum_that_vanished_is_forgotten() -> None:
    account = Account(1.0, 3.0).record(0.0, {A: Count(5, 0), B: Count(5, 5)})
    account = account.record(2.0, {B: Count(5, 5)}).slide(3.0)
    assert account.strata == Strata([B])
    assert account.sic() == {"q": 1.0}
    assert account.slide(100.0).sic() == {}


def test_old_news_is_no_news() -> None:
    account = Account(1.0, 3.0).record(10.0, {A: Count(1, 1)})
    assert account.record(2.0, {A: Count(9, 0)}).sic() == {"q": 1.0}


batches = st.lists(
    st.tuples(
        st.floats(0, 3),
        st.dictionaries(
            st.sampled_from([A, B, Stratum("p", "a"), Stratum("p", "a", "x")]),
            st.integers(0, 20).flatmap(
                lambda n: st.integers(0, n).map(lambda kept: Count(n, kept))
            ),
        ),
    ),
    max_size=15,
)


@given(batches)
def test_against_an_account_that_keeps_everything(
    told: list[tuple[float, dict[Stratum, Count]]],
) -> None:
    account, now, book = Account(0.5, 4.0), 0.0, []
    for gap, counts in told:
        now += gap
        account = account.record(now, counts)
        book.append((int(now // 0.5), counts))
    recent = [counts for slot, counts in book if slot > int(now // 0.5) - 8]
    expected = {}
    for query in ("q", "p"):
        shares = []
        for source in ("a", "b"):
            mine = [c for counts in recent for s, c in counts.items() if s[:2] == (query, source)]
            if arrived := sum(count.arrived for count in mine):
                shares.append(sum(count.admitted for count in mine) / arrived)
        if shares:
            expected[query] = sum(shares) / len(shares)
    found = {q: sic for q, sic in account.slide(now).sic().items() if q in expected}
    assert found == pytest.approx(expected)
    assert all(0 <= sic <= 1 for sic in account.sic().values())  # law 3


def test_an_account_survives_a_pickle() -> None:
    account = Account(1.0, 10.0).record(0.0, {A: Count(100, 50), B: Count(10, 10)})
    again = pickle.loads(pickle.dumps(account))
    assert again.strata is account.strata
    more = {A: Count(10, 5)}
    assert again.record(1.0, more).sic() == account.record(1.0, more).sic()


def _two_then_three(seconds: int, *sources: str) -> Account:
    """Three sources for an STW of ten seconds, then only these for so many seconds."""
    account = Account(1.0, 10.0)
    for second in range(10 + seconds):
        sent = "abc" if second < 10 else sources
        account = account.record(second, {Stratum("q", s): Count(10, 10) for s in sent})
    return account


THREE = {"named": DeclaredSources(frozenset("abc")), "unnamed": DeclaredSources(unnamed=3)}


@pytest.mark.parametrize("three", THREE)
def test_law_3_a_declared_source_that_falls_silent_lowers_the_sic_by_its_share(three: str) -> None:
    declared = {"q": THREE[three]}
    assert _two_then_three(7, "a", "b").sic(None, declared) == {"q": 1.0}
    for seconds in (8, 10):  # the STW has its last tuples still, and then it has none
        silent = _two_then_three(seconds, "a", "b")
        assert silent.sic(None, declared) == {"q": pytest.approx(2 / 3)}
        assert silent.sic() == {"q": 1.0}  # of a query whose sources come and go
        back = silent.record(10.0 + seconds, {Stratum("q", "c"): Count(1, 1)})
        assert back.sic(None, declared) == {"q": 1.0}


@given(
    st.integers(10, 40),
    st.floats(0.0, 30.0),
    st.floats(0.0, 1.0),
    st.lists(st.floats(0.5, 1.0), min_size=40, max_size=40),
)
def test_a_silence_shows_within_an_stw_of_the_last_tuple(
    slots: int, stops: float, first: float, gaps: list[float]
) -> None:
    """Where batches begin once an interval, each with what came since the one before.

    ``site.sic()`` slides the account to the time at which it is asked.
    """
    stw, declared = 10.0, {"q": DeclaredSources(frozenset("abc"))}
    interval = stw / slots
    stops += stw
    account, began, before = Account(interval, stw), first * interval, 0.0
    for gap in gaps * slots:
        sent = "abc" if before < stops else "ab"
        account = account.record(began, {Stratum("q", s): Count(9, 9) for s in sent})
        if "c" in sent:
            assert account.sic(None, declared) == {"q": 1.0}
        began, before = began + gap * interval, began
        if began > stops + stw:
            break
    told = account.slide(stops + stw).sic(None, declared)
    assert told == {"q": pytest.approx(2 / 3)}


def test_a_batch_that_takes_long_is_no_silence() -> None:
    """Nothing is counted meanwhile, of no source; an STW later the account has forgotten all."""
    declared = {"q": THREE["named"]}
    account = _two_then_three(0)
    assert {account.slide(s).sic(None, declared)["q"] for s in range(10, 19)} == {1.0}
    assert account.slide(19.0).sic(None, declared) == {}


def test_what_a_source_sent_before_it_fell_silent_is_no_gain() -> None:
    standing = _two_then_three(8, "a", "b").by_query(None, {"q": THREE["named"]})
    assert standing.attainable.tolist() == pytest.approx([2 / 3])
    gained = dict(zip(_two_then_three(8, "a", "b").strata, standing.gained, strict=True))
    assert gained[Stratum("q", "c")] == 0.0
    assert sum(gained.values()) == pytest.approx(2 / 3)


def test_a_source_that_sends_once_in_seven_tenths_of_an_stw_is_not_silent() -> None:
    account = Account(1.0, 10.0)
    for second in range(60):
        sent = {A: Count(5, 5)} | ({B: Count(1, 1)} if second % 7 == 0 else {})
        account = account.record(second, sent)
        assert account.sic(None, {"q": DeclaredSources(frozenset("ab"))}) == {"q": 1.0}


def test_a_tuple_is_worth_its_part_of_the_declared_sources() -> None:
    standing = _two_then_three(10, "a", "b").by_query(None, {"q": THREE["named"]})
    assert standing.tuple_sic.tolist() == pytest.approx([1 / 300, 1 / 300])
    assert standing.attainable.tolist() == pytest.approx([2 / 3])


def test_a_source_has_an_stw_to_send_its_first_tuple() -> None:
    declared = {"q": DeclaredSources(frozenset("ab"))}
    account = Account(1.0, 3.0)
    found: list[float] = []
    for second in range(5):
        account = account.record(second, {A: Count(10, 10)})
        found += account.sic(None, declared).values()
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5]


def test_a_query_that_had_nothing_for_an_stw_begins_anew() -> None:
    declared = {"q": DeclaredSources(frozenset("ab"))}
    account = Account(1.0, 3.0).record(0.0, {A: Count(5, 5)}).slide(10.0)
    assert account.sic(None, declared) == {}
    assert account.record(10.0, {B: Count(5, 5)}).sic(None, declared) == {"q": 1.0}


def test_more_sources_than_declared_count_as_they_are() -> None:
    declared = {"q": DeclaredSources(unnamed=2)}
    account = _two_then_three(10, "a", "b", "c")
    assert account.sic(None, declared) == {"q": 1.0}


def test_where_sources_were_not_told_apart_none_is_taken_for_silent() -> None:
    declared = {"q": DeclaredSources(unnamed=3)}
    account = _two_then_three(10, "a", "")
    assert account.sic(None, declared) == {"q": 1.0}


def test_a_source_that_comes_and_goes_hides_no_other() -> None:
    """It is not among the names, so that its tuples are not taken for a declared source's."""
    declared = {"q": DeclaredSources(frozenset("ab"))}
    assert _two_then_three(10, "a", "c").sic(None, declared)["q"] == pytest.approx(2 / 3)
    assert _two_then_three(10, "a", "b").sic(None, declared)["q"] == 1.0


def test_queries_of_a_column_share_one_declaration() -> None:
    account = Account(1.0, 2.0)
    for second in range(5):
        sent = [Stratum("p", "a"), Stratum("q", "a"), Stratum("q", "b")]
        account = account.record(second, {s: Count(4, 4) for s in sent})
    declared = {ANY_QUERY: DeclaredSources(unnamed=2)}
    assert account.sic(None, declared) == pytest.approx({"p": 0.5, "q": 1.0})
