"""Compares versions with what Penstock asks for; says no more than that language can say."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_BOUND = re.compile(r"(<=|>=|==|<|>)\s*(\d+(?:\.\d+)*)")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)\s*([^;]*)(?:;.*extra\s*==\s*['\"](\w+)['\"])?")
LONGEST = 4
"""Parts of a version that count."""


class Requirement(NamedTuple):
    """Is one package that Penstock asks for."""

    name: str
    bounds: str
    extra: str
    """Empty for those that Penstock cannot be without."""


def numbers(version: str) -> tuple[int, ...]:
    """Reads a version; what is no number in it, such as ``rc1``, does not count.

    >>> numbers("4.2.0.dev1"), numbers("17")
    ((4, 2, 0, 0), (17, 0, 0, 0))
    """
    found = _NUMBERS.match(version)
    parts = [int(part) for part in found[0].split(".")] if found else []
    return tuple((parts + [0] * LONGEST)[:LONGEST])


def fits(version: str, bounds: str) -> bool:
    """Says whether a version lies within bounds.

    >>> fits("4.3.0", ">=4.2.0,<5"), fits("5.0", ">=4.2.0,<5"), fits("1.0", "")
    (True, False, True)
    """
    have = numbers(version)
    for operator, text in _BOUND.findall(bounds):
        wanted = numbers(text)
        holds = {
            "<": have < wanted,
            "<=": have <= wanted,
            ">": have > wanted,
            ">=": have >= wanted,
            "==": have == wanted,
        }
        if not holds[operator]:
            return False
    return True


def requirements(written: Sequence[str]) -> list[Requirement]:
    """Reads what a package asks for, as its metadata has it.

    >>> requirements(["pyspark<5,>=4.2.0; extra == 'spark'"])
    [Requirement(name='pyspark', bounds='<5,>=4.2.0', extra='spark')]
    """
    found = [_REQUIREMENT.match(line) for line in written]
    return [Requirement(m[1].lower(), m[2].strip(), m[3] or "") for m in found if m is not None]


def java_version(said: str) -> int | None:
    """Reads the major version of what ``java -version`` says.

    >>> java_version('openjdk version "17.0.12" 2024-07-16'), java_version('java version "1.8.0"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def connector(coordinates: str) -> tuple[str, str, str] | None:
    """Reads a package of Maven: its name without Scala's version, that version, and its own.

    >>> connector("org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0")
    ('org.apache.spark:spark-sql-kafka-0-10', '2.13', '4.3.0')
    """
    parts = coordinates.strip().split(":")
    if len(parts) != 3:
        return None
    name, _, scala = parts[1].rpartition("_")
    return (f"{parts[0]}:{name}", scala, parts[2]) if name else None


def installed_of(names: Mapping[str, str | None], extra: str, asked: Sequence[Requirement]) -> bool:
    """Says whether any package of an extra is there: then the user wants it whole."""
    return any(names.get(one.name) for one in asked if one.extra == extra)
