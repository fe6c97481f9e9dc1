"""Strata with the same contents are one object, in any thread and after a pickle."""

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.types import Count, Strata, Stratum, Tally

A, B, C = (Stratum("q", "s", group) for group in "abc")
some_strata = st.lists(
    st.builds(Stratum, st.sampled_from("pq"), st.sampled_from("st"), st.sampled_from("abc")),
    unique=True,
)


@given(some_strata, some_strata)
def test_equal_means_identical(first: list[Stratum], second: list[Stratum]) -> None:
    one, other = Strata(first), Strata(second)
    assert (one is other) == (one == other) == (first == second)
    assert (hash(one) == hash(other)) >= (first == second)
    assert pickle.loads(pickle.dumps(one)) is one
    assert list(one) == first
    assert Strata(one) is one


@given(some_strata, some_strata)
def test_places_and_sources_are_what_a_search_finds(
    mine: list[Stratum], asked: list[Stratum]
) -> None:
    strata = Strata(mine)
    expected = [mine.index(stratum) if stratum in mine else -1 for stratum in asked]
    for _ in range(2):  # the second answer was remembered
        assert strata.places(Strata(asked)).tolist() == expected
    assert [strata.place(stratum) for stratum in asked] == expected
    assert [stratum in strata for stratum in asked] == [place >= 0 for place in expected]
    found = strata.grouping
    assert [found.queries[q] for q in found.query] == [stratum.query for stratum in mine]
    assert [found.sources[s] for s in found.source] == [stratum[:2] for stratum in mine]
    assert [found.queries[q] for q in found.query_of_source] == [s[0] for s in found.sources]
    some = frozenset(stratum[:2] for stratum in asked)
    assert strata.of_sources(some).tolist() == [stratum[:2] in some for stratum in mine]


def test_a_part_of_strata() -> None:
    strata = Strata([A, B, C])
    assert strata[1] == B
    assert strata[1:] is Strata([B, C])
    assert strata.only(np.array([True, False, True])) is Strata([A, C])


def test_what_is_shared_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Strata([A, B]).places(Strata([B]))[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        Strata([A, B]).grouping.query[0] = 5


def test_threads_agree() -> None:
    many = [[Stratum("q", "s", f"{n}-{i}") for i in range(50)] for n in range(100)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(Strata, many * 8))
    assert len({id(strata) for strata in made}) == len(many)


def test_strata_that_nobody_holds_are_forgotten() -> None:
    gc.collect()
    before = len(Strata._alive)
    lasting = Strata([A])
    for number in range(100):
        lasting.places(Strata([Stratum("q", "s", f"gone-{number}")]))
    gc.collect()
    assert len(Strata._alive) <= before + 1
    assert len(lasting._found) == 0


def test_a_tally_is_a_mapping() -> None:
    counts = {A: Count(3, 1), B: Count(5, 5)}
    tally = Tally.of(counts)
    assert dict(tally.items()) == {s: tally[s] for s in tally} == counts
    assert Tally.of(tally) is tally
    assert C not in tally
