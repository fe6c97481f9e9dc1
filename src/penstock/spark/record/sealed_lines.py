"""Lines of JSON with a checksum, so that a damaged figure is noticed and not believed.

A line ends with the version of the format and a checksum of what stands before it. One that a
crash cut short is *torn*: it says nothing, and what it would have said is missing. One that is
whole and does not fit its checksum is *damaged*: it says something wrong. Lines of a Penstock
from before there were checksums have none, and are taken as they are.
"""

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple
from zlib import crc32

VERSION = 1
_SEAL = re.compile(r', "v(\d+)": "([0-9a-f]{8})"\}$')
_ENDED = re.compile(r'\}$|, "v\d+": "[0-9a-f]{8}".')
"""The end of a line, or what would be its end but for the last character."""


class Fault(Enum):
    """Is what may be wrong with a line."""

    TORN = auto()
    DAMAGED = auto()
    OTHER_VERSION = auto()


class SealedLine(NamedTuple):
    """Is a line of a file as it was read."""

    number: int
    """Counted from 1."""
    told: dict[str, Any]
    """What it says; empty where something is wrong with it."""
    fault: Fault | None = None
    sealed: bool = True
    """Whether it had a checksum."""
    version: int = VERSION


def sealed(told: Mapping[str, Any]) -> str:
    """Answers the line that says this, with its checksum.

    >>> sealed({"batch": 3})
    '{"batch": 3, "v1": "540067ea"}'
    """
    body = json.dumps(dict(told))[:-1]
    return f'{body}, "v{VERSION}": "{_checksum(body, VERSION)}"}}'


def read_lines(text: bytes) -> Iterator[SealedLine]:
    """Answers the lines of a file; empty ones are left out.

    >>> [line.fault for line in read_lines(b'{"batch": 4, "v1": "540067ea"}')]
    [<Fault.DAMAGED: 2>]
    """
    for number, raw in enumerate(text.split(b"\n"), start=1):
        if raw.strip():
            yield _read(number, raw)


def _read(number: int, raw: bytes) -> SealedLine:
    try:
        line = raw.decode()
    except UnicodeDecodeError:
        return SealedLine(number, {}, Fault.DAMAGED)
    found = _SEAL.search(line)
    if found is not None:
        version, body = int(found[1]), line[: found.start()]
        if _checksum(body, version) != found[2]:
            return SealedLine(number, {}, Fault.DAMAGED)
        if version != VERSION:
            return SealedLine(number, {}, Fault.OTHER_VERSION, version=version)
    try:
        told = json.loads(line)
    except ValueError:
        return SealedLine(number, {}, Fault.DAMAGED if _ENDED.search(line) else Fault.TORN)
    if not isinstance(told, dict):
        return SealedLine(number, {}, Fault.DAMAGED)
    if found is not None:
        told.popitem()
    return SealedLine(number, told, sealed=found is not None)


def _checksum(body: str, version: int) -> str:
    return f"{crc32(f'v{version}{body}'.encode()):08x}"
