"""Ledgers, states and orders on a disk that damages them: what is read is right, or missed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.core.state import State
from penstock.errors import PenstockError
from penstock.federation.fragment_store import FragmentStore
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.saved_state import SavedState
from penstock.spark.record.sealed_lines import sealed
from tests.federation.support import an_order

Damage = Callable[[bytes, random.Random], bytes]
BATCHES = 12


def cut(text: bytes, luck: random.Random) -> bytes:
    return text[: luck.randrange(len(text))]


def flip(text: bytes, luck: random.Random, bits: int = 1) -> bytes:
    changed = bytearray(text)
    for place in luck.sample(range(8 * len(text)), bits):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def flip_many(text: bytes, luck: random.Random) -> bytes:
    return flip(text, luck, luck.randint(2, 40))


def lose_a_line(text: bytes, luck: random.Random) -> bytes:
    """Not the newest of a query, which only its checkpoint knows of."""
    lines = text.splitlines(keepends=True)
    del lines[luck.randrange(2, len(lines) - 5)]
    return b"".join(lines)


def zeros(text: bytes, luck: random.Random) -> bytes:
    """A block of a file that was never written."""
    first = luck.randrange(len(text) - 8)
    size = luck.randint(8, 512)
    return (text[:first] + bytes(size) + text[first + size :])[: len(text)]


def a_ledger(path: Path) -> Ledger:
    """Two queries, one of them with two gates and with losses behind them."""
    ledger = Ledger(path)
    for job, gates in (("fares", 2), ("tips", 1)):
        ledger.open(job, f"id-of-{job}", 0, gates)
    for batch in range(BATCHES):
        for job, gates in (("fares", 2), ("tips", 1)):
            for gate in range(gates):
                metrics = {"arrived": 100 + batch, "admitted": 60, "version": batch}
                ledger.note(job, f"id-of-{job}", batch, gate, metrics)
        ledger.note_losses("fares", "id-of-fares", batch, {"late": 1.5})
    return ledger


@pytest.mark.parametrize("damage", [cut, flip, flip_many, lose_a_line, zeros])
def test_a_damaged_ledger_has_no_wrong_figure(
    tmp_path: Path, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a site believes was written so; what it cannot believe is missed, and it says so."""
    path = tmp_path / "ledger.jsonl"
    whole = a_ledger(path)
    text, truth = path.read_bytes(), set(whole)
    for seed in range(25):
        path.write_bytes(damage(text, random.Random(seed)))
        again = Ledger(path)
        assert set(again) <= truth
        assert sum(again.lost().values()) <= 1.5 * BATCHES
        newest_is_there = all(
            not again.lacks(job, f"id-of-{job}", BATCHES - 1) for job in ("fares", "tips")
        )
        if set(again) != truth and newest_is_there:
            assert not again.balanced, "something is missing, and nobody would know"
        code = main(["ledger", str(path), "--json"])
        out, error = capsys.readouterr()
        if code == 2:
            assert error.startswith(f"penstock ledger: {path}: this is no ledger")
            continue
        told = json.loads(out)
        assert told["whole"] == (code == 0) == (not told["problems"])
        for job in told["jobs"]:
            mine = [e for e in truth if e.job == job["job"]]
            assert job["arrived"] <= sum(e.arrived for e in mine)
            assert job["arrived"] == job["admitted"] + job["shed"]
        if code == 0 and damage is not cut:
            assert sum(job["arrived"] for job in told["jobs"]) == whole.total()[0]


def test_a_ledger_of_another_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "site" / "ledger.jsonl"
    a_ledger(path)
    assert main(["ledger", str(tmp_path)]) == 0
    assert "fares: batches 0 to 11; 2,532 arrived, 1,440 admitted" in capsys.readouterr().out
    monkeypatch.setattr("penstock.spark.record.sealed_lines.VERSION", 7)
    with path.open("a") as file:
        file.write(sealed({"something": "new"}) + "\n")
    monkeypatch.undo()
    assert main(["ledger", str(tmp_path / "site")]) == 2
    said = capsys.readouterr().err
    assert f"{path}:51: a ledger of format 7, and this Penstock knows 1: use the one that" in said
    with pytest.raises(PenstockError, match="use the one that wrote it, or another directory"):
        Ledger(path)


def test_lines_of_before_there_were_checksums_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.jsonl"
    a_ledger(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(dict(list(e.items())[:-1])) + "\n" for e in lines))
    assert main(["ledger", str(path)]) == 0
    assert "note: 50 lines have no checksum: an older Penstock" in capsys.readouterr().out


def test_what_is_missing_is_listed_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.jsonl"
    a_ledger(path)
    lines = path.read_text().splitlines(keepends=True)
    lines[10] = lines[10].replace('"arrived": 10', '"arrived": 90')
    kept = [line for line in lines if '"batch": 5' not in line and '"batch": 6' not in line]
    path.write_text("".join(kept))
    assert main(["ledger", str(path)]) == 1
    out = capsys.readouterr().out
    assert "PROBLEM: line 11 is damaged, and what it said is in no sum" in out
    assert "PROBLEM: tips: batches 5 to 6 are missing, or lack an entry of one of the gates" in out
    assert out.endswith("not whole\n")


@pytest.mark.parametrize("what", ["", "nothing", "empty/", "text", "binary"])
def test_what_is_no_ledger_is_told(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("Shall I compare thee\nto a summer's {day}\n")
    (tmp_path / "binary").write_bytes(random.Random(1).randbytes(5000))
    assert main(["ledger", str(tmp_path / what)]) in (1, 2)
    out, error = capsys.readouterr()
    assert (out + error).count("\n") == 1 or "PROBLEM" in out


@pytest.mark.parametrize("damage", [cut, flip, flip_many, zeros])
def test_a_damaged_state_is_forgotten_and_never_believed(tmp_path: Path, damage: Damage) -> None:
    saved = SavedState(tmp_path)
    saved.remember("state", State())
    saved.remember("plan", {"batch": 3}, of="fares")
    (plan,) = tmp_path.glob("plan-*.pickle")
    state = tmp_path / "state.pickle"
    assert saved.recall("state", State) is not None
    for path in (state, plan):
        whole = path.read_bytes()
        for seed in range(10):
            path.write_bytes(damage(whole, random.Random(seed)))
            if path.read_bytes() != whole:
                assert saved.recall(path.stem, object) is None
    assert saved.recall_all("plan", dict) == {}


@pytest.mark.parametrize("damage", [cut, flip, flip_many, zeros])
def test_a_damaged_order_is_not_run(tmp_path: Path, damage: Damage) -> None:
    store, order = FragmentStore(tmp_path), an_order()
    store.keep(order)
    (path,) = tmp_path.glob("*.json")
    whole = path.read_bytes()
    for seed in range(10):
        path.write_bytes(damage(whole, random.Random(seed)))
        assert store.all() in ([], [order])
    path.write_text(order.model_dump_json(exclude_none=True))
    assert store.all() == [order], "one of before there were checksums"
