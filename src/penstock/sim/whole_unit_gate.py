"""Enforces rates in a simulation, on whole batches of source tuples and single partial results."""

import numpy as np

from penstock.core.types import Bools, Floats


class WholeUnitGate:
    """Admits whole units of each stratum.

    The fair shedder remembers what it admitted. Where a rate asks for a part of a unit, that part
    is owed to the next interval, so over time a stratum gets its rate to within one unit. The
    random shedder tosses a coin for each unit, as THEMIS' baseline does.
    """

    def __init__(self, unit: Floats, random: bool, seed: int) -> None:
        self._unit, self._random = unit, random
        self._owed = np.zeros(unit.size)
        self._rng = np.random.default_rng([seed, 3])

    def admit(self, waiting: Floats, rates: Floats, open_for: Bools) -> Floats:
        """Counts the tuples that pass; strata that are not open keep theirs waiting."""
        units = np.where(open_for, waiting // self._unit, 0.0)
        if self._random:
            whole = self._rng.binomial(units.astype(np.int64), rates).astype(np.float64)
        else:
            wanted = self._owed + rates * units
            whole = np.minimum(np.floor(wanted + 1e-9), units)
            self._owed = np.clip(wanted - whole, 0.0, 1.0)
        return whole * self._unit
