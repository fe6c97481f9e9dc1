"""What a line of the ledger may say; anything else was not written by a ledger, or is damaged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WHERE_LOST = frozenset({"guards", "late", "windows"})


@dataclass(frozen=True)
class Entry:
    """Says what one gate did in one batch."""

    job: str
    batch: int
    gate: str
    version: int | None
    """Of the plan that was in force; None where no tuple arrived."""
    arrived: int
    admitted: int
    shed: int
    query: str = ""
    """Spark's id of the query: of one name, it tells different checkpoints apart."""

    @property
    def balanced(self) -> bool:
        """Says whether every tuple that arrived was admitted or shed."""
        return self.arrived == self.admitted + self.shed


@dataclass(frozen=True)
class Opening:
    """Says with which batch the account of a query begins, and how many gates it has."""

    job: str
    query: str
    first: int
    gates: int = 1


@dataclass(frozen=True)
class LostBehind:
    """Says how many admitted tuples a batch lost behind its gates, by where that was."""

    job: str
    query: str
    batch: int
    lost: Mapping[str, float]


Line = Entry | Opening | LostBehind


def understood(told: Mapping[str, Any]) -> Line | None:
    """Answers what a line says; None where that is nothing that a ledger writes.

    >>> understood({"job": "fares", "query": "id", "first": 3})
    Opening(job='fares', query='id', first=3, gates=1)
    >>> understood({"job": "fares", "query": "id", "first": "3"})
    """
    kind = Opening if "first" in told else LostBehind if "lost" in told else Entry
    try:
        line = kind(**told)
    except TypeError:  # a key too many, or too few
        return None
    return line if _sound(line) else None


def _sound(line: Line) -> bool:
    texts: list[Any] = [line.job, line.query]
    if isinstance(line, Opening):
        counts: list[Any] = [line.first, line.gates]
    elif isinstance(line, LostBehind):
        counts = [line.batch]
        lost = isinstance(line.lost, dict) and line.lost.keys() <= WHERE_LOST
        if not lost or not all(_is_number(tuples) for tuples in line.lost.values()):
            return False
    else:
        texts.append(line.gate)
        counts = [line.batch, line.arrived, line.admitted, line.shed]
        counts += [] if line.version is None else [line.version]
    return all(isinstance(text, str) for text in texts) and all(
        type(count) is int and count >= 0 for count in counts
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < float("inf")
