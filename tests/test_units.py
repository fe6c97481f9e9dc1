"""Durations: what is read, and that everything else is refused in words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.units import SECONDS_PER_UNIT, seconds


@pytest.mark.parametrize(
    ("given", "value"),
    [
        *(("20s", 20), ("500ms", 0.5), ("1m", 60), ("1min", 60), ("2h", 7200)),
        *(("1.5", 1.5), (".5s", 0.5), ("2.s", 2), (" 20 s ", 20), ("0", 0)),
        *((3, 3), (1.5, 1.5), (0, 0)),
    ],
)
def test_durations(given: float | str, value: float) -> None:
    assert seconds(given) == pytest.approx(value)
    assert type(seconds(given)) is float


@given(st.integers(0, 10**9), st.sampled_from(sorted(SECONDS_PER_UNIT)))
def test_a_text_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert (
        seconds(f"{number}{unit}")
        == seconds(f" {number} {unit} ")
        == number * SECONDS_PER_UNIT[unit]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "s", "soon", "-1s", "1e3s", "1 2s", "1d", "1S", "1.2.3s", "nan", "9" * 400),
        *(-1, -0.5, math.nan, math.inf, None, [20], {"at": 1}),
    ],
)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration such as '20s'"):
        seconds(wrong)
