"""Holds strata in a hash table made of arrays, in which native expressions can look them up.

Spark's own maps are searched from end to end, and a join costs a job a batch. Cuckoo hashing
(Pagh and Rodler, 2001) puts each key into one of two places that its hash names, so a look-up is
two array reads, for any number of strata.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from penstock.core.types import Ints

KEY_NOT_IN_PLACE_1 = 2**32 + 1
"""A free place holds key 0, which belongs into place 1; a free place 1 holds this key instead."""

MOST_EVICTIONS = 64
"""After this many evictions for one key, the table counts as too small."""
LARGEST_GROWTH_FACTOR = 64
"""A table of this many times the usual size would not help keys that are no hashes."""


@dataclass(frozen=True)
class Table:
    """Holds ``keys[p]`` and ``ordinals[p]`` for each place p; place 0 and free places hold none."""

    mask: int
    """Both places of a key k: ``(k & mask) + 1`` and ``((k >>> 32) & mask) + 1``."""
    keys: Ints
    ordinals: Ints
    number: int = 0
    """Tables that differ in their keys or in the order of these differ in their numbers."""

    @classmethod
    def of(cls, keys: Ints) -> "Table":
        """Makes a table in which key i has ordinal i + 1; keys must differ."""
        if np.unique(keys).size != keys.size:
            raise ValueError("two strata have the same fingerprint")
        size = 8
        while size < 2.6 * keys.size:
            size *= 2
        largest = LARGEST_GROWTH_FACTOR * size
        while (places := _placed(keys, size)) is None:
            size *= 2
            if size > largest:
                raise ValueError("the fingerprints of three strata are too much alike for a table")
        table_keys, ordinals = np.zeros((2, size + 1), dtype=np.int64)
        table_keys[1] = KEY_NOT_IN_PLACE_1
        table_keys[places] = keys
        ordinals[places] = np.arange(1, keys.size + 1)
        digest = blake2b(table_keys.tobytes() + ordinals.tobytes(), digest_size=8).digest()
        return cls(size - 1, table_keys, ordinals, int.from_bytes(digest, signed=True))

    def find(self, key: int) -> int:
        """Returns the ordinal of a key as the gate finds it, 0 for none; only tests call it."""
        unsigned = key & (2**64 - 1)
        for place in ((unsigned & self.mask) + 1, ((unsigned >> 32) & self.mask) + 1):
            if self.keys[place] == key:
                return int(self.ordinals[place])
        return 0


def _placed(keys: Ints, size: int) -> Ints | None:
    unsigned, mask = keys.astype(np.uint64), np.uint64(size - 1)
    first = ((unsigned & mask) + np.uint64(1)).astype(np.int64).tolist()
    second = (((unsigned >> np.uint64(32)) & mask) + np.uint64(1)).astype(np.int64).tolist()
    owner = [-1] * (size + 1)
    for newcomer in range(len(first)):
        guest, place = newcomer, first[newcomer]
        for _ in range(MOST_EVICTIONS):
            guest, owner[place] = owner[place], guest
            if guest < 0:
                break
            place = second[guest] if place == first[guest] else first[guest]
        else:
            return None
    places = np.empty(len(first), dtype=np.int64)
    for place, key in enumerate(owner):
        if key >= 0:
            places[key] = place
    return places
