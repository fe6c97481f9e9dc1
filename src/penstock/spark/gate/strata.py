"""Knows the strata of a gate, and the tables of them that were sent to it."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from penstock.core.types import Strata, Stratum
from penstock.spark.gate.table import Table

Value = TypeVar("Value")
TABLES_REMEMBERED = 256
"""Plans whose tables are kept, so that counts that come back late can be read."""


class KnownStrata:
    """Keeps every stratum that a tuple was seen of, with its fingerprint.

    The codec calls ``meet`` for strata that are new when it reads counts, and ``list`` for the
    table that goes with a plan. There are at most ``most`` strata.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.fingerprints: dict[Stratum, int] = {}
        """In the order of their ordinals."""
        self._listed: dict[int, tuple[Table, Strata]] = {}
        """By version of a plan: the table, and its strata by ordinal."""

    def meet(self, stratum: Stratum, fingerprint: int) -> None:
        """Takes a stratum in, as long as there is room."""
        if stratum not in self.fingerprints and len(self.fingerprints) < self.most:
            self.fingerprints[stratum] = fingerprint

    def make_room(self, alive: Strata) -> None:
        """Forgets, when there is no room for new strata, those that are no longer accounted for."""
        if len(self.fingerprints) >= self.most:
            kept = {s: f for s, f in self.fingerprints.items() if s in alive}
            if len(kept) < len(self.fingerprints):
                self.fingerprints = kept

    def list(self, version: int, strata: Strata) -> Table:
        """Returns the table of these strata, and remembers it under a plan's version.

        It is the table before, the same object, unless the strata have changed.
        """
        if self._listed:
            table, known = next(reversed(self._listed.values()))
            if known == strata:
                self._remember(version, table, strata)
                return table
        keys = (self.fingerprints[stratum] for stratum in strata)
        table = Table.of(np.fromiter(keys, dtype=np.int64, count=len(strata)))
        self._remember(version, table, strata)
        return table

    def listed(self, version: int) -> tuple[Table, Strata]:
        """Returns the table of a plan and its strata; raises KeyError where it is forgotten."""
        return self._listed[version]

    def recall(self, version: int, table: Table, fingerprints: Mapping[Stratum, int]) -> None:
        """Takes over what a gate knew before its driver was started again."""
        self.fingerprints = {**fingerprints, **self.fingerprints}
        self._remember(version, table, Strata(fingerprints))

    def by_stratum(self, values: Mapping[int, Value]) -> dict[Stratum, Value]:
        """Returns by stratum what is known by fingerprint."""
        return {s: values[f] for s, f in self.fingerprints.items() if f in values}

    def by_fingerprint(self) -> dict[int, Stratum]:
        """Returns the strata by fingerprint."""
        return {fingerprint: stratum for stratum, fingerprint in self.fingerprints.items()}

    def _remember(self, version: int, table: Table, strata: Strata) -> None:
        self._listed.pop(version, None)
        self._listed[version] = (table, strata)
        while len(self._listed) > TABLES_REMEMBERED:
            del self._listed[next(iter(self._listed))]
