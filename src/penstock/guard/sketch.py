"""A sketch learns what a tuple of each key costs, in two count-min matrices.

``F`` counts the tuples of a key and ``W`` adds up their costs, in the same cells (LAS, section
III-C). All keys that hash to a cell share it, so the sketch looks a key up in the row where the
fewest share it: ``cost = W[i, h_i(key)] / F[i, h_i(key)]`` with i the row of the smallest F. (The
smallest *ratio* over the rows would be that of the cheapest other key.)

Both matrices are linear: those of several workers add up to those of all.
"""

import struct
from math import ceil, e, inf, isfinite, log
from typing import Any

import numpy as np

from penstock.core.types import Floats, Ints
from penstock.errors import PenstockError
from penstock.guard.hashes import Hashes, Words

MOST_CELLS = 1 << 24
"""Two matrices of so many cells take a quarter of a gigabyte; more is a slip of the pen."""
_HEADER = struct.Struct("<4sIIQ")
_MAGIC = b"PSk1"


class Sketch:
    """The pair ⟨F, W⟩ of count-min matrices.

    ``error`` and ``doubt`` are the ε and δ of section III-B: the sketch overestimates a frequency
    by more than ε of all others' with probability at most δ.

    >>> from penstock.guard.hashes import fingerprints
    >>> sketch = Sketch(error=0.05, doubt=0.1, seed=1)
    >>> sketch.update(fingerprints(["a", "b", "a"]), np.array([3.0, 1.0, 5.0]))
    >>> sketch.costs(fingerprints(["a", "b"])).tolist()
    [4.0, 1.0]
    """

    __slots__ = ("F", "W", "hashes", "seed")

    def __init__(
        self,
        error: float = 0.05,
        doubt: float = 0.1,
        seed: int = 0,
        *,
        shape: tuple[int, int] | None = None,
    ) -> None:
        if shape is None and not (0.0 < error < inf and 0.0 < doubt < 1.0):
            raise PenstockError(
                "error must be a number above 0, such as 0.05, and doubt a number between 0 and 1, "
                f"such as 0.1; got {error} and {doubt}"
            )
        rows, columns = shape or (max(ceil(-log(doubt, 2)), 1), max(ceil(e / error), 1))
        if min(rows, columns) < 1 or rows * columns > MOST_CELLS or not 0 <= seed < 2**64:
            raise PenstockError(
                f"a sketch must have from 1 to {MOST_CELLS:,} cells, such as 4 x 55, and a seed of "
                f"64 bits, such as 0; got {rows} x {columns} cells and seed {seed}"
            )
        self.seed = seed
        self.hashes = Hashes.of(rows, columns, seed)
        self.F: Floats = np.zeros((rows, columns))
        self.W: Floats = np.zeros((rows, columns))

    @property
    def tuples(self) -> float:
        """How many tuples the sketch has seen, less what it has forgotten."""
        return float(self.F[0].sum())

    @property
    def mean(self) -> float:
        """The mean cost, which is that of a tuple of an unknown key."""
        return float(self.W[0].sum() / max(self.tuples, 1e-300))

    def update(self, keys: Words, costs: Floats) -> None:
        """Learns tuples in the order given: a call with many is many calls with one, bit by bit."""
        if keys.dtype != np.uint64 or keys.shape != costs.shape or not np.isfinite(costs).all():
            raise PenstockError(
                "keys must be fingerprints, such as fingerprints(['a']), with as many finite "
                f"costs; got {keys.size} keys of {keys.dtype} and {costs.size} costs"
            )
        self.update_at(self.hashes.cells(keys), costs)

    def update_at(self, cells: Ints, costs: Floats) -> None:
        """Learns as ``update`` does, for callers that have the cells of the keys."""
        for row in cells:
            np.add.at(self.F.reshape(-1), row, 1.0)
            np.add.at(self.W.reshape(-1), row, costs)

    def add(self, key: int, cost: float) -> None:
        """Learns one tuple, as ``update`` does, without the cost of arrays."""
        if not isfinite(cost):
            raise PenstockError(f"cost must be a finite number, such as 0.25; got {cost}")
        cells = self.hashes.of_one(key)
        self.F.reshape(-1)[cells] += 1.0
        self.W.reshape(-1)[cells] += cost

    def frequencies(self, keys: Words) -> Floats:
        """Returns ``f̂ = min_i F[i, h_i]``, which is never less than the truth.

        A sketch that was sent is in single precision, so there this holds to one part in 10⁷.
        """
        return np.asarray(self.F.reshape(-1)[self.hashes.cells(keys)].min(axis=0))

    def costs(self, keys: Words) -> Floats:
        """Returns the estimated cost of one tuple of each key; of an unknown key, the mean."""
        return self.costs_at(self.hashes.cells(keys))

    def costs_at(self, cells: Ints) -> Floats:
        """Answers as ``costs`` does, for callers that have the cells of the keys."""
        counts = self.F.reshape(-1)[cells]
        row = counts.argmin(axis=0)[None]
        count = np.take_along_axis(counts, row, 0)[0]
        total = self.W.reshape(-1)[np.take_along_axis(cells, row, 0)[0]]
        unknown = np.full(count.size, self.mean)
        return np.asarray(np.divide(total, count, out=unknown, where=count > 0))

    def cost(self, key: int) -> float:
        return float(self.costs_at(self.hashes.of_one(key)[:, None])[0])

    def ratios(self) -> Floats:
        """Returns ``W / F`` in each cell, 0 in an empty one: the paper's snapshot."""
        return np.divide(self.W, self.F, out=np.zeros_like(self.W), where=self.F > 0)

    @property
    def spread(self) -> float:
        """The largest cost that the sketch can answer, over the mean; 1 if it knows nothing."""
        mean = self.mean
        return float(self.ratios().max()) / mean if mean > 0.0 else 1.0

    def clear(self) -> None:
        self.F[:] = 0.0
        self.W[:] = 0.0

    def fade(self, keep: float) -> None:
        """Forgets a part of everything, so that what is newer counts more."""
        if not 0.0 <= keep <= 1.0:
            raise PenstockError(f"keep must be a share from 0 to 1, such as 0.5; got {keep}")
        self.F *= keep
        self.W *= keep

    def copy(self) -> "Sketch":
        other = Sketch(seed=self.seed, shape=self.shape)
        other.F[:], other.W[:] = self.F, self.W
        return other

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.F.shape
        return int(rows), int(columns)

    def __iadd__(self, other: "Sketch") -> "Sketch":
        """Merges the sketch of another worker: the sum is the sketch of both streams."""
        if (self.shape, self.seed) != (other.shape, other.seed):
            raise PenstockError(
                f"sketches of {self.shape} cells with seed {self.seed} and of {other.shape} with "
                f"seed {other.seed} cannot be merged: give all workers the same"
            )
        self.F += other.F
        self.W += other.W
        return self

    def __bytes__(self) -> bytes:
        """Returns both matrices in single precision, which is plenty for a cost: 8 bytes a cell.

        A pickled sketch consists of these bytes.
        """
        rows, columns = self.shape
        head = _HEADER.pack(_MAGIC, rows, columns, self.seed)
        return head + self.F.astype("<f4").tobytes() + self.W.astype("<f4").tobytes()

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return _from_bytes, (bytes(self),)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Sketch":
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise PenstockError("these bytes are not a sketch: they do not begin with its mark")
        _, rows, columns, seed = _HEADER.unpack_from(data)
        if len(data) != _HEADER.size + 8 * rows * columns:
            raise PenstockError(
                f"a sketch of {rows} x {columns} cells has {_HEADER.size + 8 * rows * columns} "
                f"bytes, and here are {len(data)}"
            )
        sketch = cls(seed=seed, shape=(rows, columns))
        both = np.frombuffer(data, dtype="<f4", offset=_HEADER.size).reshape(2, rows, columns)
        sketch.F[:], sketch.W[:] = both
        return sketch


def _from_bytes(data: bytes) -> Sketch:
    """Reads a pickle. Pickle finds a plain function by its name and would copy a class method."""
    return Sketch.from_bytes(data)
