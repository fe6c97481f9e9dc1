"""What rows contain depends on their number and the seed alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.sources.generators import (
    BLOCK_ROWS,
    POOL_BLOCKS,
    Keyed,
    Readings,
    RecordBatch,
    blocks_between,
    find_generator,
    generator,
)


def values(batches: list[RecordBatch], column: str) -> list[Any]:
    return [value for batch in batches for value in batch.column(column).to_pylist()]


@pytest.mark.parametrize("make", [Readings, Keyed])
def test_a_block_depends_on_seed_and_number(make: type[Readings | Keyed]) -> None:
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert one.block(3) == same.block(3)
    assert one.block(3) != other.block(3)
    assert one.block(3) != one.block(4)
    assert one.block(3) is one.block(3 + POOL_BLOCKS)


@pytest.mark.parametrize("name", ["readings", "keyed"])
def test_the_columns_are_those_of_the_schema(name: str) -> None:
    made = generator(name, 0, ())
    batch: Any = made.block(0)
    assert batch.schema.names == [column.split()[0] for column in made.schema.split(", ")]


def test_slices_join_to_the_whole() -> None:
    made = Keyed()
    parts = [(0, 10), (10, BLOCK_ROWS + 5), (BLOCK_ROWS + 5, 2 * BLOCK_ROWS + 1)]
    pieces = [value for a, b in parts for value in values([*blocks_between(made, a, b)], "value")]
    assert pieces == values([*blocks_between(made, 0, 2 * BLOCK_ROWS + 1)], "value")


def test_a_reading_is_json_and_keys_are_skewed() -> None:
    block = Readings(keys=3000, skew=1.2).block(1)
    payloads = block.column("payload").to_pylist()
    keys = block.column("key").to_pylist()
    first = json.loads(payloads[0])
    assert first.keys() == {"id", "key", "value", "unit", "note"}
    assert all(json.loads(text)["key"] == key for text, key in zip(payloads, keys, strict=True))
    assert 110 < np.mean([len(text) for text in payloads]) < 130
    counts = Counter(keys)
    assert counts["k00000"] == max(counts.values())
    assert len(counts) > 1000


def test_sources_span_a_factor_of_a_hundred() -> None:
    made = Keyed(queries=50)
    rows = [*blocks_between(made, 0, POOL_BLOCKS * BLOCK_ROWS)]
    pairs = Counter(zip(values(rows, "query"), values(rows, "source"), strict=True))
    sources = Counter(query for query, _ in pairs)
    assert len(sources) == 50
    assert set(sources.values()) == {1, 2, 3}
    assert 60 < max(pairs.values()) / min(pairs.values()) < 160


def test_options_become_the_type_of_their_default() -> None:
    assert generator("keyed", 0, (("queries", "7"),)).block(0) == Keyed(queries=7).block(0)
    with pytest.raises(
        PenstockError, match="'keys' must be a whole number, such as 5000; got 'many'"
    ):
        generator("readings", 0, (("keys", "many"),))
    with pytest.raises(PenstockError, match="option 'queries' must be a whole number from 1"):
        generator("keyed", 0, (("queries", "0"),))


def test_a_generator_of_ones_own() -> None:
    assert find_generator("penstock.sources.generators:Keyed") is Keyed
    for spec in ("reading", "no.such:thing", "penstock.sources.generators:nothing", "math:pi"):
        with pytest.raises(PenstockError, match="option 'generator'"):
            find_generator(spec)
