"""What Spark tells of a streaming query and its sources, as plain values."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

ROW_LIMITS = ("maxOffsetsPerTrigger", "maxRowsPerTrigger")
READ_LIMITS = (*ROW_LIMITS, "maxFilesPerTrigger", "maxBytesPerTrigger")
"""Options of sources that bound what a batch reads; their names are not case-sensitive."""


class Trigger(NamedTuple):
    """When Spark starts the batches of a query."""

    kind: str
    """``"processing"``, ``"once"``, ``"continuous"`` or ``"real-time"``."""
    seconds: float = 0.0
    """Between the starts of two batches; 0 where one follows the other."""


TRIGGER_KINDS = {
    "OneTime": "once",
    "AvailableNow": "once",
    "Continuous": "continuous",
    "RealTime": "real-time",
}
"""Kinds of triggers by how the names of Spark's classes begin."""


def trigger_of(kind: str, millis: int) -> Trigger:
    """The trigger of a class of Spark's; one of processing time has an interval."""
    if kind == "ProcessingTimeTrigger":
        return Trigger("processing", millis / 1000)
    for word, name in TRIGGER_KINDS.items():
        if kind.startswith(word):
            return Trigger(name)
    raise TypeError(f"a trigger of the class {kind}")


class ReadLimit(NamedTuple):
    """How much a source may read in one batch, as the user has set it."""

    option: str
    """As Spark's documents spell it."""
    value: float

    @property
    def of_rows(self) -> bool:
        return self.option in ROW_LIMITS

    @property
    def of_files(self) -> bool:
        return self.option == "maxFilesPerTrigger"


class FilesRead(NamedTuple):
    """What Spark knows of a folder that a query reads."""

    seen: int
    """Files that it has read, or reads in the batch that is planned."""
    unread: int
    """Those that it has listed and not read."""
    before: bool
    """Whether some were read by an earlier batch."""


class SourceState(NamedTuple):
    """One source of a query while a batch is planned; offsets are the source's own."""

    before: Any
    """Up to where batches are committed; None before the first."""
    after: Any
    """Up to where this batch goes."""
    latest: Any
    """Up to where there is something to read; None where the source does not tell."""
    files: FilesRead | None = None
    """Where it reads a folder."""


def read_limit_of(options: Mapping[str, str]) -> ReadLimit | None:
    """The read limit among the options of a source, whose names are in lower case."""
    for name in READ_LIMITS:
        with suppress(ValueError):  # Spark refuses it as well, or takes it for something else
            if name.lower() in options:
                return ReadLimit(name, float(options[name.lower()]))
    return None
