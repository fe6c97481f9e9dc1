"""What a site keeps for settling: it comes back as it went in, and stays within bounds."""

from __future__ import annotations

import os
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from penstock.spark.gate.table import Table
from penstock.spark.gate.wire import Shipment
from penstock.spark.record import past_batches
from penstock.spark.record.past_batches import PastBatch, PastBatches, recall_past

QUERY = "7d3c0b5e"


def past(batch: int, strata: int = 3) -> PastBatch:
    """A batch that shed; its table has so many strata."""
    table = Table.of(np.arange(1, strata + 1) * 7919)
    thresholds = np.arange(strata + 1) * (batch + 1) * 2**40
    plan = Shipment(batch, False, table, thresholds, np.ones(strata + 1))
    offsets = ((None, {"t": {"0": 5}}), ({"logOffset": batch - 1}, {"logOffset": batch}))
    return PastBatch(batch, 1e9, offsets, True, 1.5, 2.25, None, {0: plan} if strata else {})


def same(one: PastBatch, other: PastBatch) -> bool:
    mine, its = ({**vars(each), "plans": None} for each in (one, other))
    return (
        mine == its
        and one.plans.keys() == other.plans.keys()
        and all(
            np.array_equal(plan.thresholds, other.plans[gate].thresholds)
            and np.array_equal(plan.table.keys, other.plans[gate].table.keys)
            and np.array_equal(plan.table.ordinals, other.plans[gate].table.ordinals)
            and plan.table.mask == other.plans[gate].table.mask
            for gate, plan in one.plans.items()
        )
    )


def test_batches_come_back_as_they_went_in(tmp_path: Path) -> None:
    """Over a restart too; of a batch that ran twice the second counts."""
    told = [past(0), past(1, strata=0), past(2, strata=40), past(3, strata=3)]
    for life in (told[:2], [past(1, strata=5)], told[2:]):
        log = PastBatches(tmp_path)
        for batch in life:
            log.note(QUERY, batch)
    found = recall_past(tmp_path, QUERY)
    assert list(found) == [0, 1, 2, 3]
    assert all(same(found[n], told[n]) for n in (0, 2, 3))
    assert same(found[1], past(1, strata=5))
    assert recall_past(tmp_path, "another") == {}


def test_a_table_is_written_once_a_segment(tmp_path: Path) -> None:
    log = PastBatches(tmp_path)
    for batch in range(20):
        log.note(QUERY, past(batch, strata=2000))
    (segment,) = (tmp_path / "past" / QUERY).iterdir()
    assert sum('"table"' in line for line in segment.read_text().splitlines()) == 1


def test_a_damaged_line_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = PastBatches(tmp_path)
    for batch in range(3):
        log.note(QUERY, past(batch, strata=0))
    (segment,) = (tmp_path / "past" / QUERY).iterdir()
    text = segment.read_bytes()
    segment.write_bytes(text.replace(b'"batch": 1', b'"batch": 7') + b'{"batch": 3')
    assert list(recall_past(tmp_path, QUERY)) == [0, 2]
    assert [record.message for record in caplog.records] == [
        f"{segment}:2: damaged, and not believed"
    ]


def test_what_is_kept_is_bounded_by_age_and_by_size(tmp_path: Path) -> None:
    with (
        patch.object(past_batches, "SEGMENT_BYTES", 2000),
        patch.object(past_batches, "MOST_BYTES", 20_000),
    ):
        log = PastBatches(tmp_path, keep_seconds=3600)
        for batch in range(200):
            log.note(QUERY, past(batch, strata=0))
        kept = list(recall_past(tmp_path, QUERY))
        assert kept == list(range(kept[0], 200))
        assert 20 < len(kept) < 199
        folder = tmp_path / "past" / QUERY
        assert sum(path.stat().st_size for path in folder.iterdir()) < 25_000
        for path in folder.iterdir():
            os.utime(path, (time.time() - 4000,) * 2)
        PastBatches(tmp_path, keep_seconds=3600).note("other", past(0))
    assert recall_past(tmp_path, QUERY) == {}
    assert not folder.exists()


def test_nothing_is_kept_where_nobody_wants_it(tmp_path: Path) -> None:
    PastBatches(tmp_path, keep_seconds=0).note(QUERY, past(0))
    PastBatches(None).note(QUERY, past(0))
    assert not any(tmp_path.iterdir())


def test_a_disk_without_room_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "past").write_text("no folder")
    PastBatches(tmp_path).note(QUERY, past(4))
    assert caplog.records[0].message.startswith("batch 4 cannot be settled later: ")
