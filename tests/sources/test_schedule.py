"""The laws of the schedule: the floor of an integral, and its exact inverse."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sources.schedule import Profile, Schedule

START = 1_700_000_000_000_000
FACTORS = st.one_of(st.just(0.0), st.floats(0.01, 50.0))
STEPS = st.lists(st.tuples(st.integers(0, 60_000), FACTORS), max_size=5, unique_by=lambda s: s[0])
PROFILES = STEPS.map(lambda steps: tuple((at / 1000, factor) for at, factor in sorted(steps)))
PACES = st.floats(0.01, 3e6)
ELAPSED = st.integers(0, 200_000_000)
MARKS = st.lists(st.integers(0, 10**7), min_size=1, max_size=30).map(
    lambda gaps: np.cumsum([0, *gaps], dtype=np.int64)
)


def exact_level(elapsed: int, pace: float, profile: Profile) -> Fraction:
    """The reference: the integral of the pace, piece by piece, in exact fractions."""
    steps = [(0, 1.0)] + [(round(at * 1_000_000), factor) for at, factor in profile]
    ends = [begin for begin, _ in steps[1:]] + [elapsed]
    level = Fraction(0)
    for (begin, factor), end in zip(steps, ends, strict=True):
        level += max(0, min(end, elapsed) - begin) * Fraction(factor * pace)
    return level


@given(PACES, PROFILES, ELAPSED)
def test_the_offset_is_the_floor_of_the_integral(rate: float, profile: Profile, t: int) -> None:
    rows = exact_level(t, rate, profile) / 1_000_000
    offset = Schedule(START, rate, profile).offset_at(START + t)
    blur = (rows + 1) / 10**12  # an integral this near to a whole number may fall on either side
    assert math.floor(rows - blur) <= offset <= math.floor(rows + blur)


@given(PACES, PROFILES, ELAPSED)
def test_arrival_is_the_inverse_of_offset(rate: float, profile: Profile, t: int) -> None:
    schedule = Schedule(START, rate, profile)
    arrived = schedule.offset_at(START + t)
    offsets = np.unique(np.linspace(0, max(arrived - 1, 0), 50).astype(np.int64))[: arrived or 0]
    arrivals = schedule.arrival_of(offsets)
    assert np.all(arrivals <= START + t)
    assert np.all(schedule.offsets_at(arrivals) > offsets)
    assert np.all(schedule.offsets_at(arrivals - 1) <= offsets)


@given(PACES, PROFILES, st.lists(ELAPSED, min_size=2))
def test_offsets_never_go_back(rate: float, profile: Profile, times: list[int]) -> None:
    ordered = np.sort(np.array(times, dtype=np.int64)) + START
    assert np.all(np.diff(Schedule(START, rate, profile).offsets_at(ordered)) >= 0)


@given(MARKS, st.floats(0.1, 1000.0), PROFILES, ELAPSED, st.booleans())
def test_by_event_time_a_row_arrives_at_its_mark(
    marks: Any, speed: float, profile: Profile, t: int, loop: bool
) -> None:
    lap = int(marks[-1]) + 1000
    end = {"lap": lap} if loop else {"rows": len(marks)}
    schedule = Schedule(START, speed, profile, marks=marks, **end)
    arrived = schedule.offset_at(START + t)
    level = exact_level(t, speed, profile)
    for n in {n for n in (0, arrived // 2, arrived - 1) if 0 <= n < arrived}:
        mark = int(marks[n % len(marks)]) + n // len(marks) * lap
        assert mark <= level + (level + 1) / 10**12
        arrival = int(schedule.arrival_of(np.array([n]))[0])
        assert schedule.offset_at(arrival) > n
        assert schedule.offset_at(arrival - 1) <= n


def test_the_profile_is_followed() -> None:
    schedule = Schedule(START, 100, ((1, 8), (2, 0), (3, 0.5)))
    seen = [schedule.offset_at(START + s * 500_000) for s in range(9)]
    assert seen == [0, 50, 100, 500, 900, 900, 900, 925, 950]
    arrivals = schedule.arrival_of(np.array([0, 99, 100, 899, 900])) - START
    assert arrivals.tolist() == [10_000, 1_000_000, 1_001_250, 2_000_000, 3_020_000]


def test_rows_that_never_arrive_have_no_arrival() -> None:
    with pytest.raises(ValueError, match="factor 0"):
        Schedule(START, 100, ((1, 0),)).arrival_of(np.array([100]))


def test_before_the_start_nothing_has_arrived() -> None:
    assert Schedule(START, 1.0, marks=np.array([0, 5])).offset_at(START - 1) == 0
    assert Schedule(START, 1.0, marks=np.array([0, 5])).offset_at(START) == 1
