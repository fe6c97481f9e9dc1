"""Quotas: the water level against its definition, spreads, and what an error allows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.windows import quota
from penstock.windows.concept import Concept

SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=30)


@settings(max_examples=200)
@given(SIZES, st.floats(0.01, 1.0))
def test_the_level_spends_the_budget(sizes: list[int], share: float) -> None:
    total = np.array(sizes, dtype=np.float64)
    level = quota.level(total, share * total.sum())
    assert np.minimum(total, level).sum() == pytest.approx(share * total.sum())


@settings(max_examples=200)
@given(SIZES, st.floats(0.01, 1.0))
def test_proportional_quotas_are_the_same_share_but_no_group_goes_without(
    sizes: list[int], share: float
) -> None:
    total = np.array(sizes, dtype=np.float64)
    budget = share * total.sum()
    goal = quota.proportional(total, budget)
    assert goal.sum() == pytest.approx(max(budget, total.size))
    assert (goal >= 1.0).all()
    assert (goal <= total).all()
    large = goal > 1.0 + 1e-9
    shares = goal[large] / total[large]
    assert shares.tolist() == pytest.approx([shares[0]] * shares.size if shares.size else [])
    assert (goal[~large] / total[~large] >= (shares[0] if shares.size else 0.0) - 1e-9).all()


def test_groups_of_like_spread_share_alike() -> None:
    assert quota.neyman(np.array([0.5, 0.5, 0.5])).tolist() == [1.0, 1.0, 1.0]
    shares = quota.neyman(np.array([1.0, 3.0]))
    assert shares.tolist() == [0.5, 1.5]


def test_an_unknown_group_is_taken_to_be_like_the_others() -> None:
    count, mean = np.array([1000.0, 0.0]), np.array([10.0, 0.0])
    spread = quota.spread(count, mean, np.array([999 * 25.0, 0.0]))
    assert spread == pytest.approx([0.5, 0.5], rel=1e-6)


def test_caution_adds_less_the_more_is_known() -> None:
    count, mean, squares = np.array([10.0, 10_000.0]), np.ones(2), np.array([9.0, 9999.0])
    bold, careful = (quota.spread(count, mean, squares, caution) for caution in (0.0, 2.0))
    margin = careful / bold
    assert margin[0] > 1.3 > 1.03 > margin[1] > 1.0


def test_an_allowance_is_the_textbook_sample_size() -> None:
    """With one rate for all, n = n₀ / (1 + n₀/N) and n₀ = (z cv / e)²."""
    total, cv, error = np.array([1000.0]), np.array([0.4]), 0.05
    left = quota.allowed(cv, total, error, 0.95)[0]
    rate = 1000.0 / (1000.0 + left)
    wanted = (1.959964 * 0.4 / 0.05) ** 2
    assert 1000.0 * rate == pytest.approx(wanted / (1 + wanted / 1000.0), rel=1e-6)


@pytest.mark.parametrize(
    ("terms", "hint"),
    [
        ({"window": "0s"}, "longer than 0"),
        ({"window": "1m", "slide": "25s"}, "must be a multiple .* got '1m' and '25s'"),
        ({"window": "soon"}, "window"),
        ({"window": "1m", "by": "size"}, "'equal' or 'neyman'"),
        ({"window": "1m", "keep": 1.5}, "keep must be a share .* got 1.5"),
        ({"window": "1m", "keep": "a lot"}, "keep must be a share"),
        ({"window": "1m", "error": "5%"}, "value must be given with error"),
        ({"window": "1m", "error": "5%", "keep": 0.1, "value": "x"}, "must not be given both"),
        (
            {"window": "1m", "confidence": 95},
            "must lie between 0 and 1, such as 0.95; got 95",
        ),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms: dict[str, Any], hint: str) -> None:
    with pytest.raises(PenstockError, match=hint):
        Concept(**terms)


def test_shares_may_be_written_as_people_do() -> None:
    assert Concept("5m", error="5 %", value="x").bound == 0.05
    assert Concept("5m", keep="0.25").kept_share == 0.25
