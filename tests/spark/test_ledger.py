"""The ledger: what it keeps, what a crash may do to its file, and when it balances."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.state import State
from penstock.spark.record.ledger import Entry, Ledger
from penstock.spark.record.saved_state import SavedState


def entry(batch: int, *, job: str = "fares", gate: str = "gate-0", query: str = "id") -> Entry:
    return Entry(job, batch, gate, batch + 1, 100, 60, 40, query)


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.open("fares", "id", 0)
    for batch in range(3):
        ledger.record(entry(batch))
        ledger.record(entry(batch, gate="gate-1"))
    again = Ledger(path)
    assert list(again) == list(ledger)
    assert again.total() == again.total("fares") == (600, 360, 240)
    assert again.total("trips") == (0, 0, 0)
    assert again.balanced


def test_a_batch_that_ran_again_counts_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record(entry(0))
    ledger.record(replace(entry(0), admitted=10, shed=90))
    for book in (ledger, Ledger(tmp_path / "ledger.jsonl")):
        assert book.total() == (100, 10, 90)
        assert book.balanced


@pytest.mark.parametrize("left", [1, 20, 60])
def test_a_line_cut_short_is_left_out_and_the_next_is_not_spoilt(tmp_path: Path, left: int) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.open("fares", "id", 0)
    for batch in range(3):
        ledger.record(entry(batch))
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[: start + left])

    torn = Ledger(path)
    assert torn.batches("fares") == {0, 1}
    assert torn.lacks("fares", "id", 2)
    torn.record(entry(3))
    assert not torn.balanced
    torn.record(entry(2))
    assert Ledger(path).balanced
    assert Ledger(path).batches("fares") == {0, 1, 2, 3}


def balances(ledger: Ledger) -> bool:
    return ledger.balanced


def test_a_batch_that_is_missing_is_missed() -> None:
    ledger = Ledger()
    assert balances(ledger)
    ledger.open("fares", "id", 5)  # a job that ran before it was gated
    ledger.open("fares", "id", 6)  # a restart is no beginning
    ledger.record(entry(6))
    assert ledger.lacks("fares", "id", 5)
    assert not ledger.lacks("fares", "id", 4)
    assert not ledger.lacks("fares", "other", 5)
    assert not balances(ledger)
    ledger.record(entry(5))
    assert balances(ledger)
    ledger.record(replace(entry(7), shed=39))
    assert not balances(ledger)


def test_one_name_may_have_two_checkpoints() -> None:
    ledger = Ledger()
    for query, batches in (("first", 3), ("second", 1)):
        ledger.open("fares", query, 0)
        for batch in range(batches):
            ledger.record(entry(batch, query=query))
    assert ledger.total("fares") == (400, 240, 160)
    assert ledger.batches("fares", "second") == {0}
    assert balances(ledger)


@settings(max_examples=200)
@given(st.integers(1, 3), st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.data())
def test_law_1_wherever_a_crash_cuts_the_file_the_account_is_made_whole(
    gates: int, arrivals: list[int], data: st.DataObject
) -> None:
    """What is missing afterwards is missed, and once it is counted again every tuple is there.

    A batch has a line of each gate, and a crash may come between two of them.
    """
    entries = []
    for number, arrived in enumerate(arrivals):
        for gate in range(gates):
            admitted = data.draw(st.integers(0, arrived))
            counts = arrived, admitted, arrived - admitted
            entries.append(Entry("fares", number, f"gate-{gate}", 1, *counts))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        whole = Ledger(path)
        whole.open("fares", "", 0, gates)
        for each in entries:
            whole.record(each)
        written = path.read_bytes()
        path.write_bytes(written[: data.draw(st.integers(0, len(written)))])
        again = Ledger(path)
        again.open("fares", "", 0, gates)
        lost = {batch for batch in range(len(arrivals)) if again.lacks("fares", "", batch)}
        for each in entries:
            if each.batch in lost:
                again.record(each)
        assert sorted(again, key=lambda each: (each.batch, each.gate)) == entries
        assert Ledger(path).total() == (gates * sum(arrivals), *whole.total()[1:])
        assert balances(Ledger(path))


@pytest.mark.parametrize("known", [1, 2])
def test_law_1_a_crash_between_the_lines_of_two_gates_is_noticed(
    tmp_path: Path, known: int
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.open("fares", "id", 0, gates=2)
    for gate in range(known):
        ledger.record(entry(0, gate=f"gate-{gate}"))
    again = Ledger(tmp_path / "ledger.jsonl")
    assert again.lacks("fares", "id", 0) == (known == 1)
    assert again.balanced == (known == 2)


def test_what_a_full_disk_keeps_back_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "place" / "ledger.jsonl"
    (tmp_path / "place").write_text("a file where the folder should be")
    ledger = Ledger(path)
    ledger.open("job", "id", 0)
    ledger.note("job", "id", 0, 0, {"arrived": 9, "admitted": 4, "version": 1})
    (tmp_path / "place").unlink()
    ledger.note("job", "id", 1, 0, {"arrived": 3, "admitted": 3, "version": 2})
    assert list(Ledger(path)) == list(ledger)
    assert Ledger(path).total() == (12, 7, 5)


def test_a_disk_without_room_keeps_lines_back_and_loses_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """``/dev/full`` answers every write as a full disk does."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    path.symlink_to("/dev/full")
    ledger.open("fares", "id", 0)
    for batch in range(3):
        ledger.record(entry(batch))
    assert "No space left on device" in caplog.text
    assert ledger.balanced
    path.unlink()
    ledger.record(entry(3))
    assert list(Ledger(path)) == list(ledger)
    assert Ledger(path).balanced


def test_a_disk_without_room_keeps_no_state_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved = SavedState(tmp_path)
    (tmp_path / "state.pickle.new").symlink_to("/dev/full")
    saved.remember_soon("state", State())
    saved.close()
    assert "state cannot be saved" in caplog.text
    assert "No space left on device" in caplog.text
    assert saved.recall("state", State) is None
