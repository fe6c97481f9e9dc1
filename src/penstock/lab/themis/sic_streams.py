"""Makes the streams of THEMIS' figures 6 and 7: values of five kinds, in windows of a second.

Every window is a unit of its own, so all data sets and all rates stand one after the other in event
time, and one query answers them together.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from penstock import arrow as pa
from penstock.core.types import Floats
from penstock.lab.data_files import data_file
from penstock.sources.generators import DISTRIBUTIONS, draw

SYNTHETIC = (*DISTRIBUTIONS, "mixed")
PLANETLAB_FILE = "planetlab_cpu_10days.parquet"
NODES_PER_WINDOW = 20
READINGS_PER_NODE = 20
"""In a window of the TOP-5 query."""
VALUES_PER_WINDOW = 400
"""In a window of the aggregate queries (THEMIS, table 2)."""
SLOTS_PER_DAY = 288
"""Readings of a machine of PlanetLab in a day, one every five minutes."""


@dataclass(frozen=True)
class DataSet:
    """Holds the columns of one data set, a row a tuple; ``window`` counts from 0."""

    columns: dict[str, Any]

    @property
    def windows(self) -> int:
        """Returns how many windows there are."""
        return int(self.columns["window"].max()) + 1

    def write(self, path: Path) -> None:
        """Writes the data set as Parquet."""
        import_module("pyarrow.parquet").write_table(pa.table(self.columns), path)


def synthetic(kind: str, rng: np.random.Generator, windows: int, size: int) -> DataSet:
    """Draws values of one kind."""
    values = _values(kind, rng, windows * size)
    return DataSet({"window": np.repeat(np.arange(windows), size), "value": values})


def synthetic_nodes(kind: str, rng: np.random.Generator, windows: int) -> DataSet:
    """Draws nodes with a mean of their own; three in four have enough free memory."""
    size = NODES_PER_WINDOW * READINGS_PER_NODE
    node = np.tile(np.repeat(np.arange(NODES_PER_WINDOW), READINGS_PER_NODE), windows)
    own = (
        rng.normal(0.0, 5.0, (windows, NODES_PER_WINDOW)).repeat(READINGS_PER_NODE, axis=1).ravel()
    )
    free = np.where(node % 4 == 3, 80_000.0, 150_000.0) + rng.normal(0, 10_000, node.size)
    return DataSet(
        {
            "window": np.repeat(np.arange(windows), size),
            "node": node,
            "value": _values(kind, rng, node.size) + own,
            "free": free,
        }
    )


def synthetic_pairs(kind: str, rng: np.random.Generator, windows: int) -> DataSet:
    """Draws the values of two nodes, which have half of their variance in common."""
    common, one, two = (_values(kind, rng, windows * VALUES_PER_WINDOW) for _ in range(3))
    window = np.repeat(np.arange(windows), VALUES_PER_WINDOW)
    return DataSet({"window": window, "value": common + one, "other": common + two})


def _values(kind: str, rng: np.random.Generator, size: int) -> Floats:
    return draw(DISTRIBUTIONS if kind == "mixed" else [kind], rng, size)


@dataclass(frozen=True)
class PlanetLab:
    """Holds the CPU use of machines, a reading every five minutes; such a slot is a window."""

    slot: Any
    machine: Any
    cpu: Floats

    @classmethod
    def find(cls) -> "PlanetLab | None":
        """Reads the trace, which is no part of Penstock; returns None where it is missing."""
        path = data_file(PLANETLAB_FILE)
        if path is None:
            return None
        table = import_module("pyarrow.parquet").read_table(path)
        times = np.asarray(table.column("ts").cast(pa.int64()).to_numpy())
        machine = table.column("vm").combine_chunks().dictionary_encode().indices.to_numpy()
        slot = np.unique(times, return_inverse=True)[1]
        cpu = np.asarray(table.column("cpu").to_numpy(), dtype=np.float64)
        return cls(slot, machine.astype(np.int64), cpu)

    def values(self, windows: int) -> DataSet:
        """Returns slots spread evenly over the ten days."""
        chosen = np.linspace(0, self.slot.max(), windows).astype(np.int64)
        place = np.full(self.slot.max() + 1, -1)
        place[chosen] = np.arange(windows)
        kept = place[self.slot] >= 0
        # Readings are whole percents: a hair of its own decides between machines that are equal.
        value = self.cpu + self.machine * 1e-6
        columns = {"window": place[self.slot], "node": self.machine, "value": value}
        return DataSet({name: column[kept] for name, column in columns.items()})

    def nodes(self, windows: int) -> DataSet:
        """Returns the values with free memory; the trace has none, so all have enough."""
        columns = self.values(windows).columns
        return DataSet(columns | {"free": np.full(columns["value"].size, 150_000.0)})

    def pairs(self, windows: int) -> DataSet:
        """Pairs machines that ran for a whole day; a pair's day is a window."""
        day = self.slot // SLOTS_PER_DAY
        order = np.lexsort((self.slot, self.machine, day))
        code = day[order] * (self.machine.max() + 1) + self.machine[order]
        names, first, times = np.unique(code, return_index=True, return_counts=True)
        whole = first[times == SLOTS_PER_DAY][: 2 * windows]
        del names
        rows = order[whole[:, None] + np.arange(SLOTS_PER_DAY)]
        one, two = self.cpu[rows[0::2]], self.cpu[rows[1::2]]
        moving = (one.std(axis=1) > 0) & (two.std(axis=1) > 0)
        one, two = one[moving], two[moving]
        window = np.repeat(np.arange(len(one)), SLOTS_PER_DAY)
        return DataSet({"window": window, "value": one.ravel(), "other": two.ravel()})
