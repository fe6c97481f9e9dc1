"""Knows which sites and coordinators are down, and when."""

import numpy as np

from penstock.core.types import Bools, Ints
from penstock.errors import PenstockError
from penstock.sim.scenario import Failure


class Failures:
    def __init__(self, failures: list[Failure], sites: int, queries: tuple[str, ...]) -> None:
        self._sites = sites
        self._of_sites = [(f.site, f.at, f.at + f.lasts) for f in failures if f.site is not None]
        self._of_coordinators = [
            (_numbers(f.coordinator, queries), f.at, f.at + f.lasts)
            for f in failures
            if f.coordinator is not None
        ]

    def alive(self, now: float) -> Bools:
        """Whether each site is up."""
        up = np.ones(self._sites, dtype=np.bool_)
        for site, start, end in self._of_sites:
            if start <= now < end:
                up[site] = False
        return up

    def silent(self, now: float) -> Ints:
        """Lists the queries whose coordinator says nothing."""
        down = [numbers for numbers, start, end in self._of_coordinators if start <= now < end]
        return np.unique(np.concatenate(down)) if down else np.empty(0, dtype=np.int64)


def _numbers(name: str, queries: tuple[str, ...]) -> Ints:
    if name == "all":
        return np.arange(len(queries))
    if name not in queries:
        raise PenstockError(f"failures: there is no query {name!r}: ids are such as {queries[0]!r}")
    return np.array([queries.index(name)], dtype=np.int64)
