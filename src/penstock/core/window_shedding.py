"""What the controller needs of windows, where queries shed inside them.

``penstock.windows`` implements it. A controller without any such query does without.
"""

from collections.abc import Collection
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

    def record(self, batch: Batch, settings: Settings) -> tuple[Self, Batch]:
        del settings
        return self, batch

    def at(self, now: float, settings: Settings) -> Self:
        del now, settings
        return self

    def ask(self, strata: Strata, standing: Standing, forecast: Forecast) -> Asked:
        del strata, standing
        return Asked.all_of(forecast)
