"""SIC over the sliding STW, against an account that keeps everything."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.account import Account
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
