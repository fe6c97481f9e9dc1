"""A schedule says when row n of a replayed stream arrives.

The rule: that is a pure function of the start time, the pace and the profile, so that any process
can compute it, before or after the moment itself, and a restart needs no state but the start time.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError

Profile = tuple[tuple[float, float], ...]
"""Pairs (seconds, factor): from when on rows come how many times as fast."""
Integers = NDArray[np.int64]

SECOND = 1_000_000
"""Microseconds in a second: the unit of every time here is the microsecond."""


class Schedule:
    """When each row arrives: times are whole microseconds since the epoch, rows count from 0.

    The level at time t is the integral of `pace` x factor since `start`, where the profile's
    (seconds, factor) pairs say from when which factor holds, 1 before the first. Without `marks`
    the level counts rows: `offset_at(t)`, the number of rows that have arrived by t, is its floor.
    With `marks`, the rows' sorted event times in microseconds since the first, the level is event
    time, and a row arrives when the level reaches its mark. `lap` is the event time that one round
    of the marks takes; without it the stream ends after `rows` rows.

    `arrival_of(n)` is the first microsecond at which `offset_at` exceeds n: the two are inverse
    exactly, in spite of floating point, because the level inside a segment of the profile is
    computed from that segment's beginning, and a last step compares with `offset_at` itself.
    """

    def __init__(
        self,
        start: int,
        pace: float,
        profile: Profile = (),
        *,
        marks: Integers | None = None,
        lap: int | None = None,
        rows: int | None = None,
    ) -> None:
        self.start = start
        self._marks, self._lap, self._rows = marks, lap, rows
        steps = [(0, 1.0)] + [(round(at * SECOND), factor) for at, factor in profile]
        self._unit = 1.0 if marks is not None else float(SECOND)
        self._begins = np.array([begin for begin, _ in steps], dtype=np.int64)
        self._paces = np.array([factor * pace for _, factor in steps])
        levels = [(0, 0.0)]
        for (begin, end), speed in zip(pairwise(self._begins), self._paces, strict=False):
            gained = float(end - begin) * speed / self._unit + levels[-1][1]
            levels.append((levels[-1][0] + math.floor(gained), gained - math.floor(gained)))
        self._wholes = np.array([whole for whole, _ in levels], dtype=np.int64)
        self._parts = np.array([part for _, part in levels])

    def offset_at(self, time: int) -> int:
        """Returns the number of rows that have arrived by `time`."""
        return int(self.offsets_at(np.array([time], dtype=np.int64))[0])

    def offsets_at(self, times: Integers) -> Integers:
        """Returns `offset_at` for each time of an array."""
        level = self._levels(np.maximum(times - self.start, 0))
        offsets = np.where(times < self.start, 0, self._rows_within(level))
        return offsets if self._rows is None else np.minimum(offsets, self._rows)

    def arrival_of(self, offsets: Integers) -> Integers:
        """Returns when the rows arrive, be that in the past or in the future."""
        targets = self._targets(offsets)
        segment = _last_below(self._wholes, targets)
        paces = self._paces[segment]
        missing = (targets - self._wholes[segment]) - self._parts[segment]
        if np.any((paces == 0) & (missing > 0)):
            raise PenstockError("the profile ends with factor 0 before these rows arrive")
        waits = np.divide(missing * self._unit, paces, out=np.zeros_like(missing), where=paces > 0)
        guess = self._begins[segment] + np.maximum(np.ceil(waits), 0.0).astype(np.int64)
        guess -= (guess > 0) & (self._levels(np.maximum(guess - 1, 0)) >= targets)
        guess += self._levels(guess) < targets
        arrivals: Integers = guess + self.start
        return arrivals

    def _levels(self, elapsed: Integers) -> Integers:
        segment = _last_below(self._begins, elapsed + 1)
        # Multiplied first: at whole rates the product is exact, and so is its floor.
        gained = (elapsed - self._begins[segment]) * self._paces[segment] / self._unit
        gained += self._parts[segment]
        levels: Integers = self._wholes[segment] + np.floor(gained).astype(np.int64)
        return levels

    def _rows_within(self, level: Integers) -> Integers:
        if self._marks is None:
            return level
        laps, rest = np.divmod(level, self._lap) if self._lap else (0, level)
        rows: Integers = laps * len(self._marks) + np.searchsorted(self._marks, rest, side="right")
        return rows

    def _targets(self, offsets: Integers) -> Integers:
        """Returns the level at which each row arrives."""
        if self._marks is None:
            return offsets + 1
        laps, row = np.divmod(offsets, len(self._marks))
        targets: Integers = self._marks[row] + laps * (self._lap or 0)
        return targets


def _last_below(edges: Integers, values: Integers) -> Integers:
    """Returns the last edge below each value, or the first edge; one number if all share it.

    A batch seldom straddles a change of pace, and one number makes what follows twice as fast.
    """
    if not values.size:
        return np.zeros(0, dtype=np.int64)
    ends = np.searchsorted(edges, np.array([values.min(), values.max()]), side="left")
    found = ends[:1] if ends[0] == ends[1] else np.searchsorted(edges, values, side="left")
    return np.maximum(found - 1, 0)
