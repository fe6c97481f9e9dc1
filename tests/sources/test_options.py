"""Options that cannot work are refused by name, before anything starts."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.sources.options import parse, parse_profile

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")

GENERATED = {"generator": "keyed", "rate": "10"}
BAD: list[tuple[dict[str, str], str]] = [
    ({"rate": "10"}, "'path' .* 'generator'"),
    ({**GENERATED, "path": "x.csv"}, "'path' .* 'generator'"),
    (
        {"path": "nowhere.csv", "rate": "1"},
        "'path' must be a file that exists; got 'nowhere.csv'",
    ),
    ({"path": "rows.json", "rate": "1"}, "option 'path' must end with .parquet"),
    ({"generator": "keyd", "rate": "1"}, "option 'generator' must be one of .* got 'keyd'"),
    ({"generator": "keyed"}, "one of the options 'rate' .* 'speed'"),
    ({**GENERATED, "speed": "2"}, "one of the options 'rate' .* 'speed'"),
    ({"generator": "keyed", "speed": "2"}, "option 'speed' must come with 'path' and 'time'"),
    ({**GENERATED, "time": "at"}, "option 'time' must be left out .* _arrival"),
    *(({**GENERATED, "rate": rate}, "option 'rate'") for rate in ("-1", "0", "nan", "inf", "x")),
    ({**GENERATED, "partitions": "0"}, "option 'partitions' must be a whole number from 1"),
    ({**GENERATED, "maxRowsPerTrigger": "-5"}, "option 'maxRowsPerTrigger'"),
    ({**GENERATED, "seed": "one"}, "option 'seed'"),
    ({**GENERATED, "loop": "maybe"}, "option 'loop' must be true or false"),
    ({**GENERATED, "profil": "[]"}, "unknown option 'profil': did you mean 'profile'"),
    ({**GENERATED, "keys": "5"}, "unknown option 'keys'"),
    ({**GENERATED, "queries": "none"}, "option 'queries'"),
    *(
        ({**GENERATED, "profile": profile}, "option 'profile'")
        for profile in (
            "{",
            "3",
            '[{"at": 1}]',
            '[{"at": "soon", "factor": 1}]',
            '[{"at": 5, "factor": 1}, {"at": 5, "factor": 2}]',
            '[{"at": 1, "factor": -1}]',
            '[{"at": NaN, "factor": 1}]',
        )
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        parse(options)


def test_bad_files_are_named(ten_readings: str, tmp_path: Path) -> None:
    with pytest.raises(
        PenstockError, match="'time' must be one of the columns at, key; got 'when'"
    ):
        parse({"path": ten_readings, "rate": "1", "time": "when"})
    with pytest.raises(PenstockError, match=r"'time' must be a column of timestamps .* got 'key'"):
        parse({"path": ten_readings, "rate": "1", "time": "key"})
    pq.write_table(pa.table({"_offset": [1]}), tmp_path / "stamped.parquet")
    with pytest.raises(PenstockError, match="without a column '_offset'"):
        parse({"path": str(tmp_path / "stamped.parquet"), "rate": "1"})
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    with pytest.raises(PenstockError, match="must be a file with rows"):
        parse({"path": str(tmp_path / "empty.parquet"), "rate": "1"})


def test_a_profile_is_pairs_of_seconds_and_factors() -> None:
    text = '[{"at": 0.5, "factor": 0}, {"at": "20s", "factor": 8}, {"at": "1m", "factor": 1}]'
    assert parse_profile(text) == ((0.5, 0.0), (20.0, 8.0), (60.0, 1.0))
