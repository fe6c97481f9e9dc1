"""The options of the `replay` source, checked.

The rule: `parse` finds everything that can be wrong when Spark loads the stream, and its
`PenstockError` names the option and what to do. A stream that has started does not fail for a
typing error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructType, TimestampType

from penstock import arrow as pa
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.sources.generators import (
    BUILT_IN,
    RecordBatch,
    blocks_between,
    find_generator,
    generator,
    generator_options,
)
from penstock.sources.recording import Recording, recording, version_of
from penstock.sources.schedule import Profile
from penstock.units import seconds

OPTIONS = [
    *("path", "generator", "rate", "speed", "time", "loop"),
    *("profile", "partitions", "maxRowsPerTrigger", "seed"),
]
"""The options of every replayed stream; a generator has others besides."""


@dataclass(frozen=True)
class ReplayOptions:
    """The options, checked. They are hashable, because worker processes cache by them."""

    path: str | None = None
    time: str | None = None
    generator: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    rate: float | None = None
    speed: float | None = None
    loop: bool = False
    profile: Profile = ()
    partitions: int = 2
    max_rows: int | None = None
    seed: int = 0
    version: int = 0

    def file(self) -> Recording | None:
        return recording(self.path, self.time, self.version) if self.path else None

    def schema(self) -> StructType | str:
        """Returns the rows' columns, then `_arrival` and `_offset`."""
        file = self.file()
        if file is None:
            made = generator(self.generator or "", self.seed, self.parameters)
            return f"{made.schema}, _arrival TIMESTAMP, _offset BIGINT"
        columns = from_arrow_schema(file.schema, prefer_timestamp_ntz=False)
        return columns.add("_arrival", TimestampType()).add("_offset", LongType())

    def rows(self, start: int, stop: int) -> Iterator[RecordBatch]:
        """Yields the contents of the rows [start, stop)."""
        file = self.file()
        if file is not None:
            return file.between(start, stop)
        return blocks_between(
            generator(self.generator or "", self.seed, self.parameters), start, stop
        )


def parse(options: Mapping[str, str]) -> ReplayOptions:
    """Checks the options; a `PenstockError` names the option and what to do."""
    given = {name.lower(): text for name, text in options.items()}
    if ("path" in given) == ("generator" in given):
        names = ", ".join(BUILT_IN)
        raise PenstockError(
            f"one of the options 'path' (a file) and 'generator' ({names}) must be given, such as "
            "path='rides.parquet'; got both or neither"
        )
    takes = generator_options(find_generator(given["generator"])) if "generator" in given else {}
    _refuse_unknown(given, [*OPTIONS, *takes])
    own = {option.lower() for option in OPTIONS}
    checked = ReplayOptions(
        path=given.get("path"),
        time=given.get("time"),
        generator=given.get("generator"),
        parameters=tuple(sorted(item for item in given.items() if item[0] not in own)),
        rate=_number(given, "rate"),
        speed=_number(given, "speed"),
        loop=_flag(given, "loop"),
        profile=parse_profile(given.get("profile", "[]")),
        partitions=_count(given, "partitions", 1) or 2,
        max_rows=_count(given, "maxRowsPerTrigger", 1),
        seed=_count(given, "seed", 0) or 0,
        version=version_of(given.get("path")),
    )
    _check_pace(checked)
    _check_rows(checked)
    return checked


def parse_profile(text: str) -> Profile:
    """Reads `[{"at": "20s", "factor": 8}, ...]` as (seconds, factor) pairs."""
    try:
        steps = tuple((seconds(step["at"]), float(step["factor"])) for step in json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise PenstockError(
            "option 'profile' must be a list of steps, such as "
            f"""[{{"at": "20s", "factor": 8}}]; got {text!r}: {error!r}"""
        ) from None
    if any(later[0] <= earlier[0] for earlier, later in pairwise(steps)):
        raise PenstockError(
            "option 'profile' must have times 'at' that ascend, such as 20s, 40s; got "
            f"{[at for at, _ in steps]}"
        )
    if not all(at >= 0 and 0 <= factor < math.inf for at, factor in steps):
        raise PenstockError(
            "option 'profile' must have times and factors from 0, such as "
            f"""{{"at": "20s", "factor": 8}}; got {text!r}"""
        )
    return steps


def _refuse_unknown(given: Mapping[str, str], known: Sequence[str]) -> None:
    spelt = {name.lower() for name in known}
    for name in given:
        if name not in spelt:
            raise PenstockError(f"unknown option {name!r}: {hint(name, known)}")


def _check_pace(options: ReplayOptions) -> None:
    if (options.rate is None) == (options.speed is None):
        raise PenstockError(
            "one of the options 'rate' (tuples/s) and 'speed' (x real time) must be given, such as "
            "rate=1000; got both or neither"
        )
    if options.speed is not None and options.time is None:
        raise PenstockError(
            "option 'speed' must come with 'path' and 'time', the file's event-time column, such "
            "as time='pickup'; got none"
        )
    if options.time is not None and options.path is None:
        raise PenstockError(
            "option 'time' must be left out without 'path': the event time of a generated stream "
            f"is _arrival; got {options.time!r}"
        )


def _check_rows(options: ReplayOptions) -> None:
    """Finds everything that can be wrong with the rows before anybody needs the first of them."""
    file = options.file()
    if file is None:
        generator(options.generator or "", options.seed, options.parameters)
        return
    names = file.schema.names
    for stamp in ("_arrival", "_offset"):
        if stamp in names:
            raise PenstockError(
                f"option 'path' must be a file without a column {stamp!r}, which is the source's "
                f"own; rename it in {file.path!r}"
            )
    if file.time is not None and file.time not in names:
        raise PenstockError(
            f"option 'time' must be one of the columns {', '.join(names)}; got {file.time!r}"
        )
    if file.time is not None and not _is_time(file.schema.field(file.time).type):
        raise PenstockError(
            "option 'time' must be a column of timestamps or numbers; got "
            f"{file.time!r}, which is a {file.schema.field(file.time).type}"
        )
    if not file.count:
        raise PenstockError(f"option 'path' must be a file with rows; got {file.path!r}")


def _is_time(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_timestamp(kind) or types.is_integer(kind) or types.is_floating(kind))


def _number(given: Mapping[str, str], name: str) -> float | None:
    if name not in given:
        return None
    try:
        number = float(given[name])
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise PenstockError(
            f"option {name!r} must be a number above 0, such as 1000; got {given[name]!r}"
        )
    return number


def _count(given: Mapping[str, str], name: str, least: int) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise PenstockError(
            f"option {name!r} must be a whole number from {least}, such as {least + 1}; "
            f"got {text!r}"
        )
    return int(text)


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise PenstockError(f"option {name!r} must be true or false; got {text!r}")
    return text == "true"
