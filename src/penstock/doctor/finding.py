"""What the doctor finds: one thing, how bad it is, and what to change."""

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["good", "note", "bad"]
"""A *note* works and may hurt; what is *bad* does not work, or gives away what it should not."""


@dataclass(frozen=True)
class Finding:
    """Is one line of the answer."""

    level: Level
    about: str
    """What was looked at: a name, or the file and its key."""
    found: str
    change: str = ""
    """What to do; empty where nothing has to be done."""

    def line(self) -> str:
        """Answers the finding in one line.

        >>> Finding("bad", "Java", "there is none", "install Java 17 or newer").line()
        'BAD   Java: there is none; install Java 17 or newer'
        """
        told = f"{self.about}: {self.found}"
        return f"{self.level.upper():5} {told}" + (f"; {self.change}" if self.change else "")

    def to_dict(self) -> dict[str, str]:
        """Answers plain values for JSON."""
        return asdict(self)
