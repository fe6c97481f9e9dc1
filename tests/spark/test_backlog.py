"""What waits at the sources, and what holds a query back, from reports as Spark writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.spark.backlog import Backlog, BatchReading, HeldBack, Lag, told_by
from penstock.spark.progress import Progress
from penstock.spark.stream_state import FilesRead, ReadLimit, SourceState

OFFSETS = ReadLimit("maxOffsetsPerTrigger", 30_000)
FILES = ReadLimit("maxFilesPerTrigger", 3)


def report(batch: int, sources: list[dict[str, Any]], rows: int, millis: int = 400) -> Progress:
    """A progress report of Spark 4.3, without what nobody reads here."""
    return Progress.of(
        json.dumps(
            {
                "id": "685100f6-3672-4bc9-acf5-b9028d15d1c9",
                "runId": "bbb6f89b-b9ea-45e8-9b0a-409cf5ec016a",
                "name": None,
                "timestamp": f"2026-11-18T07:12:{batch:02d}.000Z",
                "batchId": batch,
                "numInputRows": rows,
                "durationMs": {"addBatch": 300, "triggerExecution": millis},
                "sources": sources,
            }
        )
    )


def kafka(start: int, end: int, latest: int) -> dict[str, Any]:
    """A topic of two partitions that are alike."""
    start_offset, end_offset, latest_offset = (
        {"rides": {"0": offset, "1": offset}} for offset in (start, end, latest)
    )
    return {
        "description": "KafkaV2[Subscribe[rides]]",
        "startOffset": start_offset,
        "endOffset": end_offset,
        "latestOffset": latest_offset,
        "numInputRows": 2 * (end - start),
    }


FOLDER = {
    "description": "FileStreamSource[file:/in]",
    "startOffset": {"logOffset": 3},
    "endOffset": {"logOffset": 4},
    "latestOffset": None,
    "numInputRows": 150,
}


def state(source: dict[str, Any]) -> SourceState:
    return SourceState(source["startOffset"], source["endOffset"], source["latestOffset"])


def test_a_report_tells_what_waits_in_a_topic_and_nothing_of_a_folder() -> None:
    assert told_by(report(4, [kafka(0, 15_000, 40_000)], 30_000)).tuples == 50_000
    assert told_by(report(4, [FOLDER], 150)).tuples is None
    both = report(4, [FOLDER, kafka(0, 15_000, 40_000)], 30_150)
    assert told_by(both).tuples == 50_000, "what is known counts"
    behind = {**kafka(0, 15_000, 40_000), "latestOffset": None}
    assert told_by(report(4, [behind], 30_000)).tuples is None


def test_a_batch_of_as_many_rows_as_are_allowed_was_cut_if_more_waits() -> None:
    backlog = Backlog([OFFSETS])
    assert backlog.beyond([state(kafka(0, 15_000, 40_000))]) == (50_000, OFFSETS, (0,))
    assert backlog.beyond([state(kafka(0, 14_400, 40_000))]).limit == OFFSETS, "rounded down"
    assert backlog.beyond([state(kafka(0, 9_000, 9_010))]) == (20, None, (0,)), "came meanwhile"
    assert backlog.beyond([state(kafka(0, 15_000, 15_000))]) == (0, None, (0,))
    assert Backlog([None]).beyond([state(kafka(0, 15_000, 40_000))]).limit is None
    first = SourceState(None, {"rides": {"0": 40_000}}, {"rides": {"0": 90_000}})
    assert backlog.beyond([first]) == (50_000, None, (0,)), "where it began is not known"


def test_a_topic_that_was_made_anew_has_no_negative_backlog() -> None:
    assert Backlog([None]).beyond([state(kafka(0, 500, 100))]).tuples == 0


def test_files_are_counted_in_rows_as_those_of_late() -> None:
    backlog = Backlog([FILES])

    def planned(seen: int, unread: int) -> Lag:
        files = FilesRead(seen, unread, before=True)
        return backlog.beyond([SourceState({"logOffset": 3}, {"logOffset": 4}, None, files)])

    restarted = planned(seen=10, unread=6)
    backlog.learn(restarted, report(4, [FOLDER], 150))
    second = planned(seen=13, unread=3)
    backlog.learn(second, report(5, [FOLDER], 150))
    assert restarted == (None, FILES, (0,)), "how many rows a file has is not known yet"
    assert second == (None, FILES, (3,))
    assert planned(seen=16, unread=4) == (4 * 50, FILES, (3,))
    assert planned(seen=19, unread=0).tuples is None, "all that was listed; more may have come"
    assert planned(seen=20, unread=0) == (0, None, (1,))


def test_the_first_files_of_a_new_query_are_counted() -> None:
    backlog = Backlog([FILES])
    files = FilesRead(seen=3, unread=5, before=False)
    lag = backlog.beyond([SourceState(None, {"logOffset": 0}, None, files)])
    backlog.learn(lag, report(0, [{**FOLDER, "numInputRows": 60}], 60))
    files = FilesRead(seen=6, unread=2, before=True)
    assert backlog.beyond([SourceState({}, {"logOffset": 1}, None, files)]).tuples == 40


def readings(*limits: ReadLimit | None, growth: float = 30_000) -> list[BatchReading]:
    return [
        BatchReading(float(second), 30_000, Lag(second * growth, limit), on_time=True)
        for second, limit in enumerate(limits)
    ]


def test_a_limit_is_named_once_and_for_as_long_as_it_holds_the_query_back() -> None:
    held = HeldBack()
    cut = [OFFSETS] * 6
    named = [(held.note(reading), held.by)[::-1] for reading in readings(*cut, *[None] * 4)]
    assert [option for option, _ in named] == [None] * 2 + [OFFSETS.option] * 6 + [None] * 2
    assert [begins for _, begins in named].index(True) == 2
    assert sum(begins for _, begins in named) == 1


def test_a_batch_that_is_free_now_and_then_changes_nothing() -> None:
    held = HeldBack()
    for reading in readings(*[OFFSETS, OFFSETS, OFFSETS, None] * 5):
        held.note(reading)
    assert held.by == OFFSETS.option


def test_a_machine_that_is_late_is_what_holds_the_query_back() -> None:
    held = HeldBack()
    for reading in readings(*[OFFSETS] * 8):
        assert not held.note(reading._replace(on_time=False))
    assert held.by is None
    assert held.let_in is None
    assert held.arriving is None


def test_the_two_figures_are_told_in_one_sentence() -> None:
    held = HeldBack()
    for reading in readings(*[OFFSETS] * 5):
        held.note(reading)
    assert (held.let_in, held.arriving) == (30_000, 60_000)
    assert str(held) == (
        "maxOffsetsPerTrigger holds it back, and not the machine: it lets in 30,000 tuples a "
        "second, and 60,000 arrive; shedding cannot help, a higher limit can"
    )


def test_a_query_that_catches_up_says_when_it_will_have() -> None:
    held = HeldBack()
    for reading in readings(*[OFFSETS] * 4, growth=0.0):
        waiting = 100_000 - 10_000 * reading.started
        held.note(reading._replace(lag=Lag(waiting, OFFSETS)))
    assert held.arriving == pytest.approx(20_000)
    assert str(held).endswith("and 20,000 arrive; what waits will have been read in 7 s")


def test_what_arrives_in_a_folder_may_be_unknown() -> None:
    held = HeldBack()
    for second in range(4):
        held.note(BatchReading(float(second), 150, Lag(None, FILES), on_time=True))
    assert "lets in 150 tuples a second; shedding cannot help" in str(held)
