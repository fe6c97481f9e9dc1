"""Which rows of a query's result may say that nothing of them was shed.

A batch that sheds leaves its mark on the tuples that it admits (see ``gate.columns``). A row of
which it left no tuple has no mark, and nothing in the row can tell. But the driver knows which
batches shed. A row is told in a batch, and all its tuples came in that batch or before: so where
some batch shed whose tuples may belong to rows that are told now, none of these rows says 1.

To which rows a batch's tuples may belong is a matter of event time, and the gate stands in front of
the parser, where that is not known. What is taken for granted is that a tuple that was shed is no
newer than the newest one that was admitted in its batch or in the next one that admits any. A
window that begins later lacks nothing of that batch, and a row that is told has a window that was
not over when the watermark was what it was last.
"""

from dataclasses import dataclass
from math import inf

from penstock.spark.progress import Progress

TOLD_TO_MS = 0.001
"""Spark tells event times to a millisecond, and cuts off the rest."""


@dataclass
class WholeRows:
    """Follows one Spark query; it is saved and goes on after a restart."""

    span: float = inf
    """Seconds of event time that a row reaches over; 0 where rows are single tuples."""
    planned: int = -1
    """The last batch that was planned."""
    shed_in: int | None = None
    """The last batch that shed something, while the newest of its tuples is not known."""
    shed_until: float = -inf
    """The newest event time of a tuple that may have been shed."""
    newest: float = -inf
    watermark: float = -inf
    _shed_before: int | None = None
    """What ``shed_in`` was before the batch that stands there."""

    @property
    def may_be_whole(self) -> bool:
        """Says whether rows that are told now can have lost nothing without a mark of it."""
        if not self.span:
            return True
        nothing = self.shed_until == -inf
        return self.shed_in is None and (nothing or self.watermark - self.span > self.shed_until)

    def plan(self, batch: int, *, sheds: bool) -> None:
        """Takes in that a batch is about to run; each of its gates may say so.

        Where a query goes on of which nothing is remembered, nobody knows what it has shed.
        """
        if self.planned < 0 < batch:
            self.shed_in = batch - 1
        self.planned = batch
        if sheds and batch != self.shed_in:
            self._shed_before, self.shed_in = self.shed_in, batch

    def tell(self, progress: Progress, *, shed: bool) -> None:
        """Takes in how a batch went: ``shed`` says whether anything of it was, guards included."""
        batch = progress.batch
        if shed:
            self.shed_in = max(batch, self.shed_in or 0)
        elif self.shed_in == batch:  # none of the tuples that came was one to shed
            self.shed_in = self._shed_before
        self.watermark = max(self.watermark, progress.watermark or -inf)
        if progress.newest is None:
            return
        self.newest = max(self.newest, progress.newest + TOLD_TO_MS)
        if self.shed_in is not None and self.shed_in < batch:
            self.shed_until, self.shed_in = max(self.newest, self.shed_until), None
