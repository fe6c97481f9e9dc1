"""What the controller needs of windows, where queries shed inside them.

``penstock.windows`` implements it. A controller without any such query does without.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from penstock.core.demand import Filling, Forecast
from penstock.core.settings import Settings
from penstock.core.standing import Standing
from penstock.core.types import Batch, Floats, Strata, Stratum


@dataclass(frozen=True, slots=True)
class Asked:
    """The forecast of what queries ask for, and the rates that turn all that comes into it."""

    forecast: Forecast
    rates: Floats
    filling: Filling | None = None

    @classmethod
    def all_of(cls, forecast: Forecast) -> Self:
        """Answers that everything is asked for."""
        return cls(forecast, np.ones(forecast.tuples.size))


@dataclass(frozen=True, slots=True)
class Drift:
    """How a query's groups changed from one pane of its windows to the next (CoD, figure 2)."""

    groups: int
    """Groups of the later pane, all that are not counted one by one as one."""
    overlap: float
    """The share of the earlier pane's groups that the later one has, too."""
    distance: float
    """Half the summed difference of their shares: 0 where they are the same, 1 where nothing is."""

    @classmethod
    def between(cls, before: Mapping[Stratum, float], after: Mapping[Stratum, float]) -> Self:
        """Answers it for the groups of two panes, each with its share of the pane's tuples."""
        stayed = sum(stratum in after for stratum in before)
        apart = sum(abs(before.get(s, 0.0) - after.get(s, 0.0)) for s in before.keys() | after)
        return cls(len(after), stayed / max(len(before), 1), apart / 2)


class WindowsInForce(Protocol):
    """The windows of all queries that have a concept, as far as they have filled.

    A frozen value that can be pickled: the controller keeps it in its state.
    """

    @property
    def queries(self) -> Collection[str]:
        """The queries whose windows these are."""

    @property
    def groups(self) -> Collection[Stratum]:
        """The groups that these windows count one by one."""

    def drift_of(self, query: str) -> Drift | None:
        """Answers how a query's groups changed over its last two panes; None if nobody knows."""

    def record(self, batch: Batch, settings: Settings) -> tuple[Self, Batch]:
        """Answers the windows with a batch recorded, and the batch with their groups merged.

        The account has one stratum for all groups of such a query and source, since windows
        count groups themselves and forget them in time.
        """

    def at(self, now: float, settings: Settings) -> Self:
        """Answers the windows as they will be when a batch comes that starts ``now``."""

    def ask(self, strata: Strata, standing: Standing, forecast: Forecast) -> Asked:
        """Answers what queries ask for, which is less than all where they have a goal."""


@dataclass(frozen=True)
class NoWindows:
    """For controllers none of whose queries has a concept."""

    queries: tuple[str, ...] = ()
    groups: tuple[Stratum, ...] = ()

    def drift_of(self, query: str) -> Drift | None:
        del query
        return None

    def record(self, batch: Batch, settings: Settings) -> tuple[Self, Batch]:
        del settings
        return self, batch

    def at(self, now: float, settings: Settings) -> Self:
        del now, settings
        return self

    def ask(self, strata: Strata, standing: Standing, forecast: Forecast) -> Asked:
        del strata, standing
        return Asked.all_of(forecast)
