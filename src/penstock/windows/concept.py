"""What a query is promised of each window: how long it is, and how its groups share."""

from dataclasses import dataclass
from typing import Literal

from penstock.errors import PenstockError
from penstock.units import as_share, seconds


@dataclass(frozen=True)
class Concept:
    """Windows of ``window`` length, one every ``slide``; a tumbling one unless told.

    ``by`` says how groups share what is kept: "equal" quotas as CoD has them, or "neyman", in
    proportion to the spread of ``value``. Without more, the budget is what the site's policy
    gives the query. ``keep`` is a budget of one's own: the share of each window, at most. ``error``
    asks instead for as many tuples as bring the mean of ``value`` of each group within that
    relative error, at that ``confidence``. ``time`` is an event-time column that tells which
    window a tuple belongs to; without it, windows are of arrival time. ``join`` says that the
    query joins its sources on the groups, so that a group counts that is in several of them.
    """

    window: float | str
    slide: float | str | None = None
    by: Literal["equal", "neyman"] = "equal"
    keep: float | str | None = None
    error: float | str | None = None
    confidence: float = 0.95
    value: str | None = None
    time: str | None = None
    join: bool = False

    def __post_init__(self) -> None:
        if self.length <= 0 or self.pane <= 0:
            raise PenstockError("concept: window and slide must be longer than 0, such as '5m'")
        panes = self.length / self.pane
        if abs(panes - round(panes)) > 1e-9:
            raise PenstockError(
                f"concept: a window of {self.window} is no multiple of its slide {self.slide}"
            )
        if self.by not in ("equal", "neyman"):
            raise PenstockError(f"concept: by is 'equal' or 'neyman', not {self.by!r}")
        for name, share in (("keep", self.kept_share), ("error", self.bound)):
            if share is not None and not 0.0 < share <= 1.0:
                raise PenstockError(f"concept: {name} lies between 0 and 1 or 0 % and 100 %")
        if not 0.0 < self.confidence < 1.0:
            raise PenstockError(
                f"concept: confidence is a share such as 0.95, not {self.confidence}"
            )
        if self.value is None and (self.error is not None or self.by == "neyman"):
            raise PenstockError(
                "concept: error and by='neyman' need value='...', the column whose mean matters"
            )
        if self.error is not None and self.keep is not None:
            raise PenstockError("concept: give keep or error, not both")

    @property
    def length(self) -> float:
        """Of a window, in seconds."""
        return _seconds("window", self.window)

    @property
    def pane(self) -> float:
        """The seconds from one window's end to the next one's."""
        return self.length if self.slide is None else _seconds("slide", self.slide)

    @property
    def kept_share(self) -> float | None:
        return _share("keep", self.keep)

    @property
    def bound(self) -> float | None:
        return _share("error", self.error)


def _seconds(name: str, value: float | str) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise PenstockError(f"concept: {name}: {error}") from None


def _share(name: str, value: float | str | None) -> float | None:
    return None if value is None else as_share(f"concept: {name}", value)
