"""BALANCE-SIC exactly as published, for comparison.

THEMIS, section 6, "Tuple shedder": take the result SIC that the coordinator told last, less the
SIC of all that waits here, and lift the lowest queries by what is admitted. The news is taken for
the present, whatever was admitted since; the whole of a gap is mended at once, by every site that
sees it.
"""

import numpy as np

from penstock.core.account import Account, Standing
from penstock.core.capacity import Forecast
from penstock.core.settings import Settings
from penstock.core.standing import Projection
from penstock.core.state import State
from penstock.core.types import Queries


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
        Queries.of(told - less), standing.tuple_sic, account.index.of_sources(state.partial)
    )
