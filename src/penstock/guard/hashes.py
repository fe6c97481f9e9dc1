"""Keys as fingerprints, and the hash functions that find their cells in a sketch.

Both depend on nothing but the key and a seed, so that processes agree; Python's own ``hash`` does
not.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.types import Ints
from penstock.errors import PenstockError

Words = npt.NDArray[np.uint64]
"""Keys as fingerprints of 64 bits."""
PRIME = (1 << 61) - 1
"""A Mersenne prime, modulo which a remainder is a shift and an addition."""
_P, _LOW, _32, _61 = np.uint64(PRIME), np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(61)
_29 = np.uint64(29)
_LOW_29 = np.uint64((1 << 29) - 1)


def fingerprints(keys: Iterable[Any]) -> Words:
    """Returns 64 bits for each key, the same in every process and beside any other keys.

    It scatters whole numbers: ``a · x + b`` alone would let x and x + d meet for all x or for
    none, which is 2-universal and still bad for keys that are numbered.
    """
    if isinstance(keys, np.ndarray) and keys.dtype.kind in "iu":
        return scattered(keys.reshape(-1).astype(np.uint64))
    if isinstance(keys, str | bytes):
        raise PenstockError(f"keys must be a list of keys, such as [{keys!r}]; got {keys!r}")
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    return np.array([_word(key) for key in listed], dtype=np.uint64)


def _word(key: Any) -> int:
    key = key.item() if isinstance(key, np.generic) else key
    if isinstance(key, int) and -(2**63) <= key < 2**64:
        return int(scattered(np.array([key % 2**64], dtype=np.uint64))[0])
    return int.from_bytes(blake2b(_bytes(key), digest_size=8).digest(), "little")


def _bytes(key: Any) -> bytes:
    """Returns bytes that differ for different keys."""
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
    raise PenstockError(
        "a key must be a number, a text, bytes, None or a tuple of those, such as ('model', 7); "
        f"got {key!r}"
    )


def scattered(x: Words) -> Words:
    """Maps words one to one, each bit depending on all bits (the finisher of SplitMix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


@dataclass(frozen=True)
class Hashes:
    """The hash functions ``h_i(x) = ((a_i · x + b_i) mod p) mod columns`` (Carter and Wegman).

    Each row of the matrices has a pair (a, b).
    """

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
        """Returns the cells of keys, one for each row of the matrix, counted through all rows."""
        x = _remainder(keys)
        high, low = x >> _32, x & _LOW
        cells = np.empty((len(self.a), keys.size), dtype=np.int64)
        for row, (a, b) in enumerate(zip(self.a, self.b, strict=True)):
            product = _times(np.uint64(a >> 32), np.uint64(a & 0xFFFFFFFF), high, low)
            cells[row] = _remainder(product + np.uint64(b)) % np.uint64(self.columns)
            cells[row] += row * self.columns
        return cells

    def of_one(self, key: int) -> Ints:
        """Returns the cells of one key, which a cache remembers for a while."""
        return _of_one(self, key)


@lru_cache(maxsize=1 << 16)
def _of_one(hashes: Hashes, key: int) -> Ints:
    cells = hashes.cells(np.array([key], dtype=np.uint64))[:, 0]
    cells.flags.writeable = False  # all callers that ask for the key share this array
    return cells


def _remainder(x: Words) -> Words:
    x = (x & _P) + (x >> _61)
    return np.asarray(np.where(x >= _P, x - _P, x), dtype=np.uint64)


def _times(a_high: np.uint64, a_low: np.uint64, high: Words, low: Words) -> Words:
    """Returns ``a · x mod p``, computed in halves of 32 bits: 2⁶⁴ is 8 and 2⁶¹ is 1."""
    middle = a_high * low + a_low * high  # below 2⁶², and to be shifted by 32
    bottom = a_low * low
    product = ((a_high * high) << np.uint64(3)) + (middle >> _29) + ((middle & _LOW_29) << _32)
    return _remainder(_remainder(product) + _remainder(bottom))
