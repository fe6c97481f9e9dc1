"""The oracle's history: bounded, there again after a restart, and begun anew when damaged."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.federation.history import History, HistoryBounds
from penstock.federation.oracle_messages import Event
from tests.federation.test_oracle import a_beat


@contextmanager
def opened(path: Path, bounds: HistoryBounds | None = None) -> Iterator[History]:
    history = History(path, bounds)
    try:
        yield history
    finally:
        history.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "history.sqlite"


def appeared(at: float) -> Event:
    return Event(at=at, kind="site-appeared", site="rome", text="rome appeared")


def test_what_was_is_told_again_after_a_restart(path: Path) -> None:
    with opened(path) as history:
        history.note(a_beat("rome", {"load": 0.5}, throughput=7), [appeared(100)], 100)
        history.note(a_beat("oslo", {"far": None}), [], 105)
        before = history.moments(None, None, 0)
    with opened(path) as history:
        assert history.moments(None, None, 0) == before
        assert history.events(0) == [appeared(100)]
        assert [(moment.site, moment.throughput) for moment in before.sites] == [
            ("rome", 7),
            ("oslo", 0),
        ]
        assert [(moment.query, moment.sic_now) for moment in before.queries] == [
            ("load", 0.5),
            ("far", None),
        ]


def test_history_is_asked_by_site_by_query_and_by_time(path: Path) -> None:
    with opened(path) as history:
        for at in (100, 200, 300):
            history.note(a_beat("rome", {"load": 0.5, "other": 0.1}), [appeared(at)], at)
            history.note(a_beat("oslo", {"far": 0.5}), [], at)
        of_load = history.moments("load", None, 150)
        assert of_load.sites == []
        assert [(moment.query, moment.at) for moment in of_load.queries] == [
            ("load", 200),
            ("load", 300),
        ]
        of_oslo = history.moments(None, "oslo", 250)
        assert [(moment.site, moment.at) for moment in of_oslo.sites] == [("oslo", 300)]
        assert [moment.query for moment in of_oslo.queries] == ["far"]
        assert [event.at for event in history.events(0, most=2)] == [200, 300]


def test_one_heartbeat_of_many_is_kept_and_every_event(path: Path) -> None:
    with opened(path, HistoryBounds(resolution_seconds=10)) as history:
        for second in range(100, 130):
            history.note(a_beat("rome"), [appeared(second)], second)
        assert [moment.at for moment in history.moments(None, None, 0).sites] == [100, 110, 120]
        assert len(history.events(0)) == 30


def test_history_is_bounded_in_rows_and_in_age(path: Path) -> None:
    bounds = HistoryBounds(most_rows=200, longest_age_seconds=10_000, resolution_seconds=0)
    with opened(path, bounds) as history:
        history.note_events([appeared(1)], 1)
        for second in range(2_000):
            history.note(a_beat("rome"), [], 20_000 + second)
        moments = history.moments(None, None, 0).sites
        assert 200 <= len(moments) <= 1_200
        assert moments[-1].at == 21_999
        assert history.events(0) == []


def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(b"SQLite format 3\x00" + b"nonsense" * 1000)
    damaged = path.read_bytes()
    with caplog.at_level(logging.WARNING), opened(path) as history:
        history.note_events([appeared(1)], 1)
        assert history.events(0) == [appeared(1)]
    (aside,) = path.parent.glob("history.sqlite.damaged-*")
    assert aside.read_bytes() == damaged
    assert "is damaged" in caplog.text


def test_a_file_of_something_else_is_set_aside_too(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("a diary\n" * 200)
    with opened(path) as history:
        assert history.events(0) == []
    assert len(list(path.parent.glob("*.damaged-*"))) == 1


def test_a_file_that_is_damaged_while_it_is_used_is_set_aside(path: Path) -> None:
    with opened(path, HistoryBounds(resolution_seconds=0)) as history:
        for second in range(500):
            history.note(a_beat("rome"), [], second)
        forget_what_is_read(path)
        with path.open("r+b") as file:  # but for the page that says which tables there are
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
        assert history.moments(None, None, 0).sites == []
        history.note_events([appeared(1)], 1)
        assert history.events(0) == [appeared(1)]
    assert list(path.parent.glob("*.damaged-*"))


def forget_what_is_read(path: Path) -> None:
    """Writes from elsewhere, so that whoever has the file open reads it again."""
    elsewhere = sqlite3.connect(path)
    with elsewhere:
        elsewhere.execute("CREATE TABLE other (at REAL)")
    elsewhere.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    elsewhere.close()


def test_a_place_where_nothing_can_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match="file"):
        History(tmp_path / "file" / "history.sqlite")
    with pytest.raises(PenstockError, match="must be a file that can be written"):
        History(tmp_path)
