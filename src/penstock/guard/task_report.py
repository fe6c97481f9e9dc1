"""The report of a task: what a guarded task tells the driver when it ends."""

from dataclasses import dataclass, field

from penstock.guard.sketch import Sketch

LONGEST_ERROR_CHARACTERS = 300
"""An error in a report is cut off after so many characters."""


@dataclass
class TaskReport:
    """What one task did. Times are in seconds, and sums over the tuples that were admitted."""

    sketch: Sketch
    """What the task has learnt about the cost of keys."""
    admitted: int = 0
    """Tuples that the function answered."""
    shed: int = 0
    """Tuples that the task left out before the function saw them."""
    failed: int = 0
    """Tuples on which the function raised, or whose answer did not fit the column."""
    waited: float = 0.0
    """How long the admitted tuples waited until the function began with them."""
    busy: float = 0.0
    """How long the function worked."""
    moved: float = 0.0
    """How far the task moved the limit of its plan."""
    timed: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By fingerprint of a stratum: the tuples that the task timed, and their cost."""
    seen: dict[int, int] = field(default_factory=dict)
    """By fingerprint of a stratum: the tuples that came."""
    lost: dict[int, int] = field(default_factory=dict)
    """By fingerprint of a stratum: the tuples that were shed or failed."""
    error: str = ""
    """The last error that made a tuple fail."""
    part: tuple[int, int] | None = None
    """The stage and the partition that the task worked on; a task that is run again has the same.
    """
    attempt: int = 0
    """Tells tasks apart. One task may report several times, of partitions that it put together."""

    @property
    def arrived(self) -> int:
        return self.admitted + self.shed + self.failed


def error_line(error: Exception) -> str:
    """Returns the kind and the message of an error in one line.

    >>> error_line(ValueError("no such\\n   model"))
    'ValueError: no such model'
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    longest = LONGEST_ERROR_CHARACTERS
    return text if len(text) <= longest else text[: longest - 1] + "…"
