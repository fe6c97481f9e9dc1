"""Simulates links with latency: what is sent arrives some intervals later."""

import numpy as np

from penstock.core.types import Floats, Ints


class Mail:
    """Carries tuples and their SIC to numbered receivers.

    Time moves in steps; whatever arrives within a step is there at its end, when sites shed.
    """

    def __init__(self, receivers: int, interval: float, latency: float) -> None:
        self._interval, self._latency = interval, latency
        self._slots = int(np.ceil(latency / interval)) + 2
        self._tuples = np.zeros((self._slots, receivers))
        self._sic = np.zeros((self._slots, receivers))
        self._now = 0

    def send(self, to: Ints, tuples: Floats, sic: Floats, ago: Floats) -> None:
        """Sends what left so many seconds, less than a step, before the end of this step."""
        steps = np.ceil((self._latency - ago) / self._interval - 1e-9).astype(np.int64)
        slot = (self._now + np.maximum(steps, 0)) % self._slots
        np.add.at(self._tuples, (slot, to), tuples)
        np.add.at(self._sic, (slot, to), sic)

    def arrive(self) -> tuple[Floats, Floats]:
        """Hands out what has come by the end of this step, and begins the next one."""
        slot = self._now % self._slots
        tuples, sic = self._tuples[slot].copy(), self._sic[slot].copy()
        self._tuples[slot] = self._sic[slot] = 0.0
        self._now += 1
        return tuples, sic


class Sliding:
    """Keeps sums over the last intervals, one for each of many."""

    def __init__(self, slots: int, size: int) -> None:
        self._ring = np.zeros((slots, size))
        self._next = 0

    def add(self, values: Floats) -> Floats:
        """Adds an interval and returns the sums."""
        self._ring[self._next % len(self._ring)] = values
        self._next += 1
        return np.asarray(self._ring.sum(axis=0))


class Coordinators:
    """One for each query: it adds up the SIC of results over the STW, and tells every site.

    What it tells is late by the link; a coordinator that is down says nothing new.
    """

    def __init__(self, queries: int, slots: int, interval: float, latency: float) -> None:
        self._results = Sliding(slots, queries)
        self._late = max(1, int(np.ceil(latency / interval - 1e-9)))
        self._said = np.zeros((self._late, queries))
        self._at = np.zeros((self._late, queries))
        self._next = 0
        self.sic: Floats = np.zeros(queries)
        self.summed: Floats = np.zeros(queries)
        """The same before it is held to 1, as a measure of how exact the sum is."""

    def hear(self, now: float, results: Floats, down: Ints) -> None:
        """Takes in the SIC of the results that came in this interval."""
        self.summed = self._results.add(results)
        self.sic = np.minimum(self.summed, 1.0)
        slot, before = self._next % self._late, (self._next - 1) % self._late
        said, at = self.sic.copy(), np.full(self.sic.size, now)
        said[down], at[down] = self._said[before, down], self._at[before, down]
        self._said[slot], self._at[slot] = said, at
        self._next += 1

    def news(self) -> tuple[Floats, Floats]:
        """Tells what reaches sites now: SIC, and when it was true."""
        slot = self._next % self._late
        return self._said[slot], self._at[slot]
