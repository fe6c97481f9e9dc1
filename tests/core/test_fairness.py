import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.fairness import jain, kendall_top_k, spread


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_jain_lies_between_one_over_n_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9


@given(st.floats(1e-300, 1e300), st.integers(1, 20))
def test_jain_of_equals_is_one(value: float, n: int) -> None:
    assert jain([value] * n) == pytest.approx(1)


def test_spread() -> None:
    found = spread(np.linspace(0, 1, 101))
    assert (found.mean, found.iqr, found.q95_q05) == pytest.approx((0.5, 0.5, 0.9))
    assert found.std == pytest.approx(np.linspace(0, 1, 101).std())


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("abc", "abc", 0),
        ("abc", "def", 9 / 9),
        ("ab", "ba", 1 / 4),
        ("ab", "ac", 1 / 4),  # b and c: each list has one of them
        ("abc", "abd", 1 / 9),
        ("", "", 0),
    ],
)
def test_kendall(first: str, second: str, distance: float) -> None:
    assert kendall_top_k(first, second) == pytest.approx(distance)


lists = st.permutations("abcdefg").flatmap(lambda p: st.integers(0, 7).map(lambda k: p[:k]))


@given(lists, lists, st.sampled_from([0.0, 0.5]))
def test_kendall_is_symmetric_and_bounded(one: list[str], other: list[str], p: float) -> None:
    assert kendall_top_k(one, other, p) == pytest.approx(kendall_top_k(other, one, p))
    assert 0 <= kendall_top_k(one, other, p) <= 1
