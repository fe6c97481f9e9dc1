"""The hash table that native expressions look strata up in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from penstock.core.types import Ints
from penstock.spark.engine import Engine
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.gate.table import Table
from penstock.spark.gate.wire import Shipment
from tests.spark.support import xxhash64


def hashed(number: int) -> int:
    """Fingerprints are hashes, and look like it."""
    return xxhash64(number) - 2**63


longs = st.integers(-(2**63), 2**63 - 1).map(hashed)


def random_keys(size: int, seed: int = 1) -> Ints:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, size, dtype=np.int64)


@given(st.lists(longs, max_size=60, unique=True), st.lists(longs, max_size=20))
def test_every_key_is_found_at_its_ordinal_and_no_other(keys: list[int], others: list[int]) -> None:
    table = Table.of(np.array(keys, dtype=np.int64))
    assert [table.find(key) for key in keys] == list(range(1, len(keys) + 1))
    assert all(table.find(other) == 0 for other in set(others) - set(keys))
    assert table.keys.size == table.ordinals.size == table.mask + 2


def test_a_hundred_thousand_strata() -> None:
    keys = random_keys(100_000)
    table = Table.of(keys)
    places = np.stack(((keys & table.mask) + 1, ((keys >> 32) & table.mask) + 1))
    found = np.where(table.keys[places] == keys, table.ordinals[places], 0).max(axis=0)
    assert np.array_equal(found, np.arange(1, keys.size + 1))
    assert table.mask < 8 * keys.size
    assert sum(table.find(int(key)) for key in random_keys(1000, seed=2)) == 0


def test_no_key_is_found_in_a_free_place() -> None:
    """Free places hold some number too; whoever asks for that number must not stop there."""
    empty = Table.of(np.array([], dtype=np.int64))
    for key in {int(key) for key in empty.keys}:
        unsigned = key & (2**64 - 1)
        places = {(unsigned & empty.mask) + 1, ((unsigned >> 32) & empty.mask) + 1}
        assert all(empty.keys[place] != key for place in places)


def test_tables_of_one_set_in_another_order_differ_in_their_number() -> None:
    """The JVM keeps a table by its number; without ordinals in it, strata would swap rates."""
    keys = random_keys(50)
    numbers = {Table.of(order).number for order in (keys, keys[::-1].copy(), keys[:-1])}
    assert len(numbers) == 3
    assert Table.of(keys.copy()).number in numbers


def test_two_strata_of_one_fingerprint_are_refused() -> None:
    with pytest.raises(ValueError, match="same fingerprint"):
        Table.of(np.array([5, 7, 5]))


def test_keys_that_no_table_can_hold_are_refused_before_memory_ends() -> None:
    """Three keys for two places, at any size: a hash gives that once in 2⁶⁴ or so."""
    with pytest.raises(ValueError, match="fingerprint"):
        Table.of(np.array([0, 1, 2**32]))


class _KeyItself(Keys):
    def fingerprint(self) -> Column:
        return sf.col("key")


def test_spark_finds_what_python_finds(spark: SparkSession) -> None:
    known = np.concatenate((random_keys(3000), [0, -1, 1]))
    asked = np.concatenate((known, random_keys(2000, seed=3), [2, -2, 2**32]))
    table = Table.of(known)
    limits = np.arange(known.size + 1, dtype=np.int64) * 10
    keys = _KeyItself("q", "s", (sf.col("key"),), (sf.col("key"),))
    gate = Gate("look_up", keys, 10_000)
    engine = Engine(spark)
    engine.install()
    engine.answer_for(
        gate.name, Published(gate, Shipment(1, False, table, limits, np.zeros(limits.size)))
    )
    frame = spark.createDataFrame([(int(key),) for key in asked], "key bigint")
    rows = gate.look_up(frame).select("key", "_place", "_threshold").collect()
    found = [int(table.ordinals[row["_place"]]) for row in rows]
    assert found == [table.find(int(key)) for key in asked]
    assert [row["_threshold"] for row in rows] == [10 * ordinal for ordinal in found]
    assert sum(ordinal > 0 for ordinal in found) == known.size


class Published:
    """Answers every question with the same shipment."""

    def __init__(self, gate: Gate, shipment: Shipment) -> None:
        self._gate, self._shipment = gate, shipment

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        assert (gate, query, batch) == (self._gate.name, "", -1)
        self._gate.wire.forget(run)
        return self._gate.wire.encode(self._shipment, run)

    def started(self, query: str) -> None: ...

    def progressed(self) -> None: ...

    def ended(self, run: str) -> None: ...
