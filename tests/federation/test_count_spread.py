"""How wide an interval around a count is, by what the gates of a query's sites admit."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from penstock.core.account import Account
from penstock.core.state import State
from penstock.core.types import Count, Stratum
from penstock.federation.count_spread import counted_by_query, interval_width, width_of

LOUD, SOFT = Stratum("fares", "rome", "loud"), Stratum("fares", "rome", "soft")
LINK, OTHER = Stratum("fares", "a-link"), Stratum("tips", "rome")


def a_state(partial: frozenset[tuple[str, str]] = frozenset()) -> State:
    counts = {
        LOUD: Count(800, 200),
        SOFT: Count(100, 100),
        LINK: Count(50, 10),
        OTHER: Count(40, 0),
    }
    return State(account=Account(1.0, 10.0).record(100.0, counts), partial=partial)


def test_a_stratum_that_is_thinned_has_a_variance_and_a_whole_one_has_none() -> None:
    told = counted_by_query(a_state(partial=frozenset({("fares", "a-link")})))
    assert told["fares"].tuples == 900
    assert told["fares"].variance == 800 * (4 - 1)  # each of 200 stands for 4
    assert "tips" not in told  # nothing was admitted, so nothing is known


def test_partial_results_count_where_they_come_from() -> None:
    assert counted_by_query(a_state())["fares"].tuples == 950
    assert counted_by_query(State()) == {}


def test_sites_add_up() -> None:
    told = counted_by_query(a_state(partial=frozenset({("fares", "a-link")})))
    both = width_of("fares", [told, told, {}])
    one = interval_width([told["fares"]])
    assert one is not None
    assert one == pytest.approx(1.96 * sqrt(2400) / 900)
    assert both == pytest.approx(one / sqrt(2))
    assert width_of("nobody", [told]) is None


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """A stratum of 800 at the rate 1/4: the count that weights give, over many batches."""
    admitted = np.random.default_rng(1).binomial(800, 0.25, 4000)
    half = 1.96 * np.sqrt(800 * 3)
    holds = np.abs(admitted * 4 - 800) <= half
    assert 0.93 <= holds.mean() <= 0.97
