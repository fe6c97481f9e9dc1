"""What the windows say of the next batch: its groups, and how much of each a query asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.account import Standing
from penstock.core.capacity import Forecast
from penstock.core.types import Filling, Floats, Stratum
from penstock.windows.goals import shares_of_quota, wanted
from penstock.windows.window import Window


@dataclass(frozen=True, slots=True)
class Asked:
    """The forecast of what is asked for, and the rates that turn all that comes into it."""

    forecast: Forecast
    rates: Floats
    filling: Filling | None = None


def ask(
    windows: Mapping[str, Window],
    strata: tuple[Stratum, ...],
    standing: Standing,
    forecast: Forecast,
) -> Asked:
    """A query without a window asks for all that comes."""
    if not windows:
        return Asked(forecast, np.ones(forecast.tuples.size))
    job, tuples = forecast.job.copy(), forecast.tuples.copy()
    rates = np.ones(tuples.size)
    filling = Filling(
        np.zeros(tuples.size), np.zeros(tuples.size), tuples.copy(), np.ones(tuples.size)
    )
    for number, query in enumerate(standing.queries):
        if query not in windows:
            continue
        window = windows[query]
        mine = np.flatnonzero(standing.query == number)
        groups = tuple(strata[place] for place in mine.tolist())
        own, shares = window.filling(groups)
        coming = float(tuples[mine].sum())
        tuples[mine] = _mixed(tuples[mine], shares, coming)
        job[mine] = job[mine].max(initial=-1)
        own = replace(own, share=shares_of_quota(window, groups, own))
        rates[mine] = wanted(window, groups, own, tuples[mine])
        for name in ("arrived", "kept", "rest", "share"):
            getattr(filling, name)[mine] = getattr(own, name)
    asked = replace(forecast, job=job, tuples=tuples * rates)
    return Asked(asked, rates, filling)


def _mixed(of_late: Floats, shares: Floats, coming: float) -> Floats:
    """What comes, mixed as the window was so far; that is steadier than the last batch."""
    total = float(shares.sum())
    return of_late if total <= 0 else shares * (coming / total)
