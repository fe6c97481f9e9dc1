"""What a query is promised of each window: how long it is, and how its groups share."""

from dataclasses import dataclass
from typing import Literal

from penstock.errors import PenstockError
from penstock.units import as_share, seconds


@dataclass(frozen=True)
class Concept:
    """Windows of ``window`` length, one every ``slide``; a tumbling one unless told.

    ``by`` says how groups share what is admitted: "equal" quotas, or "neyman", in
    proportion to the spread of ``value``. The site's policy gives the query its budget. With
    ``keep`` the query has a budget of its own beside it: the share of each window, at most.
    ``error`` asks instead for as many tuples as bring the mean of ``value`` of each group within
    that relative error, at that ``confidence``. ``time`` is an event-time column that tells which
    window a tuple belongs to; without it, windows are of arrival time. ``join`` says that the
    query joins its sources on the groups, so that a group counts that is in several of them.

    >>> Concept("1m", slide="10s", keep="5 %").kept_share
    0.05
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
            raise PenstockError(
                "concept: window and slide must be longer than 0, such as '5m'; "
                f"got {self.window!r} and {self.slide!r}"
            )
        panes = self.length / self.pane
        if abs(panes - round(panes)) > 1e-9:
            raise PenstockError(
                "concept: window must be a multiple of slide, such as '10m' of '5m'; "
                f"got {self.window!r} and {self.slide!r}"
            )
        if self.by not in ("equal", "neyman"):
            raise PenstockError(f"concept: by must be 'equal' or 'neyman'; got {self.by!r}")
        for name, share in (("keep", self.kept_share), ("error", self.bound)):
            if share is not None and not 0.0 < share <= 1.0:
                raise PenstockError(
                    f"concept: {name} must be a share above 0 and at most 1, such as 0.05 or "
                    f"'5 %'; got {getattr(self, name)!r}"
                )
        if not 0.0 < self.confidence < 1.0:
            raise PenstockError(
                f"concept: confidence must lie between 0 and 1, such as 0.95; got {self.confidence}"
            )
        if self.value is None and (self.error is not None or self.by == "neyman"):
            raise PenstockError(
                "concept: value must be given with error and with by='neyman', such as 'fare', "
                "the column whose mean matters; got none"
            )
        if self.error is not None and self.keep is not None:
            raise PenstockError(
                "concept: keep and error must not be given both, since each sets the budget"
            )

    @property
    def length(self) -> float:
        """The seconds that a window spans."""
        return _seconds("window", self.window)

    @property
    def pane(self) -> float:
        """The seconds from one window's end to the next one's."""
        return self.length if self.slide is None else _seconds("slide", self.slide)

    @property
    def kept_share(self) -> float | None:
        """``keep`` as a number."""
        return _share("keep", self.keep)

    @property
    def bound(self) -> float | None:
        """``error`` as a number."""
        return _share("error", self.error)


def _seconds(name: str, value: float | str) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise PenstockError(f"concept: {name}: {error}") from None


def _share(name: str, value: float | str | None) -> float | None:
    return None if value is None else as_share(f"concept: {name}", value)
