"""What does a tuple of this key cost? Two count-min matrices, learnt while the job runs.

``F`` counts the tuples of a key and ``W`` adds up their costs, in the same cells (LAS, section
III-C). A cell is shared by all keys that hash to it, so a key is asked for in the row where the
fewest share it: ``cost = W[i, h_i(key)] / F[i, h_i(key)]`` with i the row of the smallest F. (The
smallest *ratio* over the rows would be that of the cheapest stranger.)

Both matrices are linear: those of several workers add up to those of all. Hashes depend on
nothing but a seed, so that processes agree; Python's own ``hash`` does not.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import ceil, e, inf, isfinite, log
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.types import Floats, Ints
from penstock.errors import PenstockError

Words = npt.NDArray[np.uint64]
PRIME = (1 << 61) - 1
"""A Mersenne prime: a remainder is a shift and an addition."""
_P, _LOW, _32, _61 = np.uint64(PRIME), np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(61)
_29 = np.uint64(29)
_LOW_29 = np.uint64((1 << 29) - 1)
MOST_CELLS = 1 << 24
"""A quarter of a gigabyte; more is a slip of the pen."""
_HEADER = struct.Struct("<4sIIQ")
_MAGIC = b"PSk1"


def fingerprints(keys: Iterable[Any]) -> Words:
    """64 bits for each key, the same in every process and beside any other keys.

    Whole numbers are scattered: ``a · x + b`` alone would let x and x + d meet for all x or for
    none, which is 2-universal and still bad luck for keys that are numbered.
    """
    if isinstance(keys, np.ndarray) and keys.dtype.kind in "iu":
        return scattered(keys.reshape(-1).astype(np.uint64))
    if isinstance(keys, str | bytes):
        raise PenstockError(f"fingerprints are of several keys: [{keys!r}], not {keys!r}")
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    return np.array([_word(key) for key in listed], dtype=np.uint64)


def _word(key: Any) -> int:
    key = key.item() if isinstance(key, np.generic) else key
    if isinstance(key, int) and -(2**63) <= key < 2**64:
        return int(scattered(np.array([key % 2**64], dtype=np.uint64))[0])
    return int.from_bytes(blake2b(_bytes(key), digest_size=8).digest(), "little")


def _bytes(key: Any) -> bytes:
    """Different keys have different bytes."""
    key = key.item() if isinstance(key, np.generic) else key
    match key:
        case str():
            return key.encode(errors="surrogatepass")
        case bytes():
            return b"\xffb" + key  # which begins no text
        case int():
            return b"\xffi" + f"{int(key):x}".encode()
        case float():
            return b"\xfff" + repr(key + 0.0).encode()  # zero has no sign
        case None:
            return b"\xffn"
        case tuple():
            parts = [_bytes(part) for part in key]
            return b"\xfft" + b"".join(struct.pack("<I", len(part)) + part for part in parts)
    raise PenstockError(f"a key is a number, a text, bytes, None or a tuple of those, not {key!r}")


def scattered(x: Words) -> Words:
    """One to one, each bit depending on all (the finisher of SplitMix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


@dataclass(frozen=True)
class Hashes:
    """``h_i(x) = ((a_i · x + b_i) mod p) mod columns`` (Carter and Wegman), a pair (a, b) a row."""

    columns: int
    a: tuple[int, ...]
    b: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, rows: int, columns: int, seed: int) -> "Hashes":
        rng = np.random.default_rng(seed)
        a = rng.integers(1, PRIME, rows).tolist()
        return cls(columns, tuple(a), tuple(rng.integers(0, PRIME, rows).tolist()))

    def cells(self, keys: Words) -> Ints:
        """Where keys lie, a row of cells for each row of the matrix, counted through all rows."""
        x = _remainder(keys)
        high, low = x >> _32, x & _LOW
        cells = np.empty((len(self.a), keys.size), dtype=np.int64)
        for row, (a, b) in enumerate(zip(self.a, self.b, strict=True)):
            product = _times(np.uint64(a >> 32), np.uint64(a & 0xFFFFFFFF), high, low)
            cells[row] = _remainder(product + np.uint64(b)) % np.uint64(self.columns)
            cells[row] += row * self.columns
        return cells

    def of_one(self, key: int) -> Ints:
        """The cells of one key, remembered for a while."""
        return _of_one(self, key)


@lru_cache(maxsize=1 << 16)
def _of_one(hashes: Hashes, key: int) -> Ints:
    cells = hashes.cells(np.array([key], dtype=np.uint64))[:, 0]
    cells.flags.writeable = False  # everybody who asks for the key gets this one
    return cells


def _remainder(x: Words) -> Words:
    x = (x & _P) + (x >> _61)
    return np.asarray(np.where(x >= _P, x - _P, x), dtype=np.uint64)


def _times(a_high: np.uint64, a_low: np.uint64, high: Words, low: Words) -> Words:
    """``a · x mod p``, in halves of 32 bits: 2⁶⁴ is 8 and 2⁶¹ is 1."""
    middle = a_high * low + a_low * high  # below 2⁶², and to be shifted by 32
    bottom = a_low * low
    product = ((a_high * high) << np.uint64(3)) + (middle >> _29) + ((middle & _LOW_29) << _32)
    return _remainder(_remainder(product) + _remainder(bottom))


class Sketch:
    """The pair ⟨F, W⟩. ``error`` and ``doubt`` are the ε and δ of section III-B:
    a frequency is overestimated by more than ε of all others' with probability at most δ.

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
                f"a sketch with error {error} and doubt {doubt}: the error must be a number above "
                "0, the doubt between 0 and 1"
            )
        rows, columns = shape or (max(ceil(-log(doubt, 2)), 1), max(ceil(e / error), 1))
        if min(rows, columns) < 1 or rows * columns > MOST_CELLS or not 0 <= seed < 2**64:
            raise PenstockError(
                f"a sketch of {rows} x {columns} cells with seed {seed}: it needs a row, a column, "
                f"at most {MOST_CELLS:,} cells and a seed of 64 bits"
            )
        self.seed = seed
        self.hashes = Hashes.of(rows, columns, seed)
        self.F: Floats = np.zeros((rows, columns))
        self.W: Floats = np.zeros((rows, columns))

    @property
    def tuples(self) -> float:
        """How many it has seen (or what is left of them, where it forgets)."""
        return float(self.F[0].sum())

    @property
    def mean(self) -> float:
        """The cost of a tuple of which nothing is known."""
        return float(self.W[0].sum() / max(self.tuples, 1e-300))

    def update(self, keys: Words, costs: Floats) -> None:
        """In the order given, so that one call with many is many calls with one, bit by bit."""
        if keys.dtype != np.uint64 or keys.shape != costs.shape or not np.isfinite(costs).all():
            raise PenstockError(
                f"a sketch learns fingerprints and as many finite costs, not {keys.size} keys of "
                f"{keys.dtype} and {costs.size} costs"
            )
        self.update_at(self.hashes.cells(keys), costs)

    def update_at(self, cells: Ints, costs: Floats) -> None:
        """As ``update``, for whoever kept the cells of the keys."""
        for row in cells:
            np.add.at(self.F.reshape(-1), row, 1.0)
            np.add.at(self.W.reshape(-1), row, costs)

    def add(self, key: int, cost: float) -> None:
        """One tuple, without the toll of arrays; the same as ``update`` with one."""
        if not isfinite(cost):
            raise PenstockError(f"a sketch learns finite costs, not {cost}")
        cells = self.hashes.of_one(key)
        self.F.reshape(-1)[cells] += 1.0
        self.W.reshape(-1)[cells] += cost

    def frequencies(self, keys: Words) -> Floats:
        """``f̂ = min_i F[i, h_i]``: never less than the truth. What was sent is in single precision,
        so there that holds to one part in 10⁷."""
        return np.asarray(self.F.reshape(-1)[self.hashes.cells(keys)].min(axis=0))

    def costs(self, keys: Words) -> Floats:
        """The estimated cost of one tuple of each key; of an unknown key, the mean."""
        return self.costs_at(self.hashes.cells(keys))

    def costs_at(self, cells: Ints) -> Floats:
        """As ``costs``, for whoever kept the cells of the keys."""
        counts = self.F.reshape(-1)[cells]
        row = counts.argmin(axis=0)[None]
        count = np.take_along_axis(counts, row, 0)[0]
        total = self.W.reshape(-1)[np.take_along_axis(cells, row, 0)[0]]
        unknown = np.full(count.size, self.mean)
        return np.asarray(np.divide(total, count, out=unknown, where=count > 0))

    def cost(self, key: int) -> float:
        return float(self.costs_at(self.hashes.of_one(key)[:, None])[0])

    def ratios(self) -> Floats:
        """``W / F`` in each cell, 0 where nothing was seen: the paper's snapshot."""
        return np.divide(self.W, self.F, out=np.zeros_like(self.W), where=self.F > 0)

    @property
    def spread(self) -> float:
        """The largest cost that it can answer, over the mean; 1 where nothing is known."""
        mean = self.mean
        return float(self.ratios().max()) / mean if mean > 0.0 else 1.0

    def clear(self) -> None:
        self.F[:] = 0.0
        self.W[:] = 0.0

    def fade(self, keep: float) -> None:
        """Forgets a part of everything, so that what is newer counts more."""
        if not 0.0 <= keep <= 1.0:
            raise PenstockError(f"what is left of a sketch is a share from 0 to 1, not {keep}")
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
        """Merges what another worker saw: the sum is the sketch of both streams."""
        if (self.shape, self.seed) != (other.shape, other.seed):
            raise PenstockError(
                f"sketches of {self.shape} cells with seed {self.seed} and of {other.shape} with "
                f"seed {other.seed} cannot be merged: give all workers the same"
            )
        self.F += other.F
        self.W += other.W
        return self

    def __bytes__(self) -> bytes:
        """In single precision, which is plenty for a cost: 8 bytes a cell. A pickle is these."""
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
    """For pickles: a plain function is found by its name, a class method is copied."""
    return Sketch.from_bytes(data)
