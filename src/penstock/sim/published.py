"""BALANCE-SIC exactly as published, for comparison.

THEMIS, section 6, "Tuple shedder": take the result SIC that the coordinator told last, less the
SIC of all that waits here, and lift the lowest queries by what is admitted. The news is taken for
the present, whatever was admitted since; the whole of a gap is mended at once, by every site that
sees it.
"""

import numpy as np

from penstock.core.account import Account
from penstock.core.demand import Forecast, Queries
from penstock.core.projection import Projection
from penstock.core.settings import Settings
from penstock.core.standing import Standing
from penstock.core.state import State


def project_as_published(
    state: State,
    account: Account,
    standing: Standing,
    forecast: Forecast,
    _now: float,
    _settings: Settings,
) -> Projection:
    """Projects as published: news has no age."""
    waiting = standing.tuple_sic * forecast.tuples
    told = np.array(
        [
            state.told[name].sic if name in state.told else own
            for name, own in zip(standing.queries, standing.sic.tolist(), strict=True)
        ]
    )
    less = np.bincount(standing.query, waiting, len(standing.queries))
    return Projection(
        Queries.of(told - less), standing.tuple_sic, account.strata.of_sources(state.partial)
    )
