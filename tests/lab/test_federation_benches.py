"""What the benchmarks of federations make of what they see."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from penstock.lab.field.hop_latency import Followed, LinkFile, parts_of

pa: Any = import_module("pyarrow")
parquet: Any = import_module("pyarrow.parquet")


def put(file: Path, column: str, seconds: float, at: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    moment = datetime.fromtimestamp(seconds, UTC)
    parquet.write_table(pa.table({column: pa.array([moment], pa.timestamp("us"))}), file)
    os.utime(file, (at, at))


def test_the_parts_of_a_latency_add_up_to_it() -> None:
    links = {
        "relay.0": {
            "rome": [LinkFile(104.0, 99.0), LinkFile(107.0, 106.0)],
            "oslo": [LinkFile(105.0, 103.0)],
        },
        "root.0": {
            "relay": [LinkFile(106.0, 99.0), LinkFile(112.0, 106.0), LinkFile(119.0, 111.0)]
        },
    }
    followed = Followed(Path(), links, {100.0: 126.0})
    assert parts_of(followed, ["relay.0", "root.0"], 100.0) == [7.0, 5.0, 7.0, 7.0]
    assert parts_of(followed, ["root.0"], 100.0) == [12.0, 7.0, 7.0]
    assert parts_of(followed, ["root.0"], 103.0) is None  # it has no result yet
    followed.results[106.0] = 140.0
    assert parts_of(followed, ["root.0"], 106.0) is None  # nothing has moved the watermark so far


def test_files_are_followed_from_outside(tmp_path: Path) -> None:
    put(tmp_path / "root.0" / "links" / "rome@q+1-0.parquet", "_time", 50.0, at=52.0)
    put(tmp_path / "root.0" / "links" / ".unfinished" / "x.parquet", "_time", 60.0, at=61.0)
    followed = Followed(tmp_path)
    result = tmp_path / "out" / "part-0.parquet"
    result.parent.mkdir()
    result.touch()  # it is being written
    followed.look()
    put(result, "end", 48.0, at=70.0)
    followed.look()
    followed.look()
    assert followed.links == {"root.0": {"rome@q": [LinkFile(52.0, 50.0)]}}
    assert followed.results == {48.0: pytest.approx(70.0)}
