"""The hook through which a site tells, while it works, what others may want to count.

The figures of a report need no hook: whoever wants them asks for the report. This is for what a
report cannot have, such as how long each single batch took. A site that nobody measures has the
meter that does nothing.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from penstock.core.types import Batch


@runtime_checkable
class Meter(Protocol):
    """Hears what a site does; an object of your own may pass it on to whatever you use.

    It is called on the site's own threads, between batches, so that it must be quick. What it
    raises is logged, and harms nothing.
    """

    def counted(self, batch: Batch, ages: Sequence[float], measured: int) -> None:
        """Hears of a batch that has finished and stands in the ledger.

        ``ages`` are seconds from arrival to commit at evenly spaced ranks of so many admitted
        tuples, ``measured``; there are none where the stream does not tell when tuples arrived.
        """

    def planned(self, stream: str, seconds: float) -> None:
        """Hears how long a Spark query waited for the plan of its next batch."""


class NoMeter:
    """Is the meter of a site that nobody measures."""

    def counted(self, batch: Batch, ages: Sequence[float], measured: int) -> None:
        """Does nothing."""

    def planned(self, stream: str, seconds: float) -> None:
        """Does nothing."""
