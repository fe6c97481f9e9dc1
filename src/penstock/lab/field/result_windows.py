"""Counts the windows of a result that a query has written as files, and what is missing of them."""

from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

WINDOW_SECONDS = 3
Windows = Mapping[float, list[int]]
"""By the start of a window the counts that stand in the result."""


def windows_of(out: Path) -> dict[float, list[int]]:
    """Reads a result; a file that is still being written is left out."""
    found: dict[float, list[int]] = {}
    for file in out.glob("*.parquet"):
        try:
            table = import_module("pyarrow.parquet").read_table(file, columns=["ts", "n"])
        except (FileNotFoundError, ValueError):
            continue
        for row in table.to_pylist():
            found.setdefault(row["ts"].timestamp(), []).append(row["n"])
    return found


def lost_of(windows: Windows, tuples: int | None = None) -> dict[str, int]:
    """Counts what is missing and what is double from the first whole window on.

    >>> lost_of({0.0: [4], 3.0: [9], 6.0: [9, 9], 12.0: [8]}, 9)
    {'windows': 4, 'missing': 1, 'doubled': 1, 'lost': 10}
    """
    first = min((at for at, counts in windows.items() if tuples in (None, counts[0])), default=0.0)
    known = Counter({at: len(counts) for at, counts in windows.items() if at >= first})
    wanted = round((max(known, default=first) - first) / WINDOW_SECONDS) + 1
    lost = wanted * (tuples or 0) - sum(windows[at][0] for at in known)
    told = {
        "windows": known.total(),
        "missing": wanted - len(known),
        "doubled": known.total() - len(known),
    }
    return told if tuples is None else {**told, "lost": lost}
