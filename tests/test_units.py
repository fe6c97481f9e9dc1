"""Durations: what is read, and that everything else is refused in words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.units import SECONDS_PER_UNIT, SECONDS_PER_WORD, seconds


@pytest.mark.parametrize(
    ("given", "value"),
    [
        *(("20s", 20), ("500ms", 0.5), ("1m", 60), ("1min", 60), ("2h", 7200)),
        *(("1.5", 1.5), (".5s", 0.5), ("2.s", 2), (" 20 s ", 20), ("0", 0)),
        *((3, 3), (1.5, 1.5), (0, 0)),
        *(("1 second", 1), ("10 minutes", 600), ("500 milliseconds", 0.5), ("2 WEEKS", 1209600)),
        *(
            ("1 hour 30 minutes", 5400),
            ("interval 5 seconds", 5),
            ("INTERVAL 1 day 2 hours", 93600),
        ),
        *(("1h 30m", 5400), ("250 microseconds", 0.00025)),
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


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(SECONDS_PER_WORD)), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_an_interval_of_spark_is_the_sum_of_its_parts(parts: list[tuple[int, str, bool]]) -> None:
    text = " ".join(f"{number} {unit}{'s' * many}" for number, unit, many in parts)
    expected = sum(number * SECONDS_PER_WORD[unit] for number, unit, _ in parts)
    for spelt in (text, f"interval {text}", text.upper()):
        assert seconds(spelt) == pytest.approx(expected)


def test_the_message_has_the_name_that_the_user_knows() -> None:
    with pytest.raises(PenstockError, match=r"^latency must be a duration, .*; got 'soon'$"):
        seconds("soon", "latency")


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "s", "soon", "-1s", "1e3s", "1 2s", "1d", "1S", "1.2.3s", "nan", "9" * 400),
        *("1 month", "1 year", "interval", "interval 5", "second", "1 seconds s", "1minute2s"),
        *(-1, -0.5, math.nan, math.inf, None, [20], {"at": 1}),
    ],
)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="must be a duration, such as '1 second' or '500ms'; got "):
        seconds(wrong)
