"""Broken files: each is read after all, or gets one message with its place."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from penstock.cli import main as cli
from penstock.cli.file_kinds import sorted_by_kind
from penstock.documents import read
from penstock.errors import PenstockError
from penstock.federation.messages import LentSource
from penstock.federation.query_file import load_query
from penstock.federation.site_file import load_site
from penstock.federation.split import split
from penstock.jobs import load as jobs
from penstock.sim import scenario
from penstock.sql import SqlError
from tests.fuzz.broken_files import BOMB, broken
from tests.jobs.broken import GOOD

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FILES_OF_EACH_KIND = int(os.environ.get("PENSTOCK_FUZZ_FILES", "30"))
"""With 250 they are a thousand, which takes half a minute."""
LONGEST_SECONDS = 30
"""For one file, on a machine that does much else; the usual is a hundredth."""
CATALOG = {
    f"{site}.machines": LentSource(
        columns="timestamp TIMESTAMP, machine STRING, cpu DOUBLE, memory DOUBLE", time="timestamp"
    )
    for site in ("rome", "oslo", "kyoto")
}


class Kind(NamedTuple):
    good: list[str]
    read: Callable[[Path], object]


def _read_query(path: Path) -> object:
    """As ``check`` and ``submit`` do: the file, then the cut into fragments."""
    query, document = load_query(path)
    try:
        return split(query, CATALOG)
    except SqlError as error:
        raise document.error(("sql",), str(error), error.line) from None


def _texts(*patterns: str) -> list[str]:
    return [path.read_text() for pattern in patterns for path in sorted(EXAMPLES.glob(pattern))]


KINDS = {
    "job": Kind([GOOD, *_texts("*.yaml")], jobs.load),
    "site": Kind(_texts("federation/[rko]*[eos]*.yaml"), load_site),
    "query": Kind(_texts("federation/[act]*.yaml"), _read_query),
    "scenario": Kind(_texts("scenarios/*.yaml"), scenario.load),
}


@contextmanager
def no_hang(what: str) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} hangs ({number}, {frame})")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def complaint(kind: Kind, path: Path, seed: int) -> str | None:
    """What is said of a file; None where it is read after all. Anything else is a failure."""
    try:
        with no_hang(f"seed {seed}"):
            kind.read(path)
            sorted_by_kind([path])
    except PenstockError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", KINDS)
def test_a_broken_file_gets_one_message_with_its_place(name: str, tmp_path: Path) -> None:
    kind, told, path = KINDS[name], 0, tmp_path / "broken.yaml"
    assert kind.good
    for seed in range(FILES_OF_EACH_KIND):
        text = broken(kind.good[seed % len(kind.good)], seed)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        said = complaint(kind, path, seed)
        if said is None:
            continue
        told += 1
        assert re.match(rf"{path}(:\d+)?: \S", said), f"seed {seed}: no place: {said[:300]!r}"
        assert len(said) < 2000, f"seed {seed}: {len(said)} letters: {said[:200]!r}"
        assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]", said), (
            f"seed {seed}: {said!r}"
        )
        assert "Traceback" not in said
        assert "pydantic" not in said
    assert told > FILES_OF_EACH_KIND / 2, "most of these files should be broken"


def test_sql_that_would_take_minutes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    for depth, said in ((2000, "more than 400 levels deep"), (8000, "at most 20,000 letters")):
        terms = " + 1" * depth
        path.write_text(GOOD.replace("avg(fare)", f"avg(1{terms})"))
        with no_hang(f"{depth} terms"), pytest.raises(PenstockError, match=said):
            jobs.load(path)


@pytest.mark.parametrize("name", KINDS)
def test_the_files_that_are_broken_are_good_at_first(name: str, tmp_path: Path) -> None:
    for number, text in enumerate(KINDS[name].good):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert complaint(KINDS[name], path, -1) is None


def test_the_command_line_answers_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A short form of the same, through the command that needs no Spark."""
    path, twos = tmp_path / "broken.yaml", 0
    for seed in range(60):
        text = broken(KINDS["scenario"].good[seed % 2], seed)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        if complaint(KINDS["scenario"], path, seed) is None:
            continue
        assert cli.main(["simulate", str(path)]) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith(f"penstock simulate: {path}")
        assert error.count("\n") == 1
        twos += 1
    assert twos > 30


def test_aliases_are_not_multiplied(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMB)
    with no_hang("a file of aliases"), pytest.raises(PenstockError, match="alias"):
        read(path)
