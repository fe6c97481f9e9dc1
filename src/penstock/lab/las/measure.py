"""What the figures share: the shedders, how many runs, and a setting run through all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.core.types import Floats
from penstock.lab.las.fleet import (
    BaseLineFleet,
    FleetShedder,
    FullKnowledgeFleet,
    Outcomes,
    StrawManFleet,
    simulate_fleet,
)
from penstock.lab.las.fleet_learning import DearestFirstFleet, LoadAwareFleet
from penstock.lab.las.streams import STREAM_TUPLES, ParallelRuns, Setting, runs

FLEETS: dict[str, Callable[[ParallelRuns], FleetShedder]] = {
    "Base Line": BaseLineFleet,
    "Straw-Man": StrawManFleet,
    "LAS": LoadAwareFleet,
    "Full Knowledge": FullKnowledgeFleet,
    "Dearest First": DearestFirstFleet,
}


@dataclass(frozen=True)
class FigureScale:
    """Says how much is run at an effort; 1 takes about ten minutes on one core."""

    associations: int
    """In the default setting."""
    points: int
    """Associations at each point of a figure."""
    seeds: int
    tuples: int
    thin: int
    """One point in so many."""
    series: int
    """Associations in figure 9."""
    whole: bool
    """Streams are as long as the paper's; shorter ones only show that all of it runs."""

    @classmethod
    def of(cls, effort: float) -> "FigureScale":
        """Returns the scale for an effort."""
        whole = effort >= 0.05
        return cls(
            whole=whole,
            associations=max(round(100 * effort), 1),
            points=max(round(20 * effort), 1),
            seeds=8 if whole else 1,
            tuples=STREAM_TUPLES if whole else STREAM_TUPLES // 16,
            thin=1 if whole else 5,
            series=max(round(24 * effort), 2 if whole else 1),
        )


def measured(setting: Setting, associations: int, scale: FigureScale) -> dict[str, Outcomes]:
    """Simulates a setting with every shedder."""
    made = runs([setting], associations, scale.seeds, scale.tuples)
    return {name: simulate_fleet(made, fleet(made)) for name, fleet in FLEETS.items()}


def spread(values: Floats) -> tuple[float, float, float]:
    """Returns mean, least and most, as the paper's bars show them."""
    return float(np.mean(values)), float(np.min(values)), float(np.max(values))
