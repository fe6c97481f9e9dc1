"""What a benchmark claims of its figures, and what several runs say of it."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """Says between what bounds a figure of a run must lie; one bound is enough."""

    figure: str
    about: str
    least: float = -math.inf
    most: float = math.inf

    @property
    def text(self) -> str:
        """Returns the claim as people read it."""
        if self.least == self.most:
            return f"{self.about} (exactly {self.most:g})"
        bounds = [f"at least {self.least:g}"] if self.least > -math.inf else []
        bounds += [f"at most {self.most:g}"] if self.most < math.inf else []
        return f"{self.about} ({', '.join(bounds)})" if bounds else self.about

    def holds(self, figures: Figures) -> bool:
        """Says whether a run keeps the claim; what was not measured does not."""
        value = figures.get(self.figure)
        return value is not None and self.least <= value <= self.most  # false where it is NaN

    @property
    def bounds(self) -> dict[str, float]:
        """Returns the bounds that there are."""
        known = {"least": self.least, "most": self.most}
        return {name: bound for name, bound in known.items() if math.isfinite(bound)}


def summed_up(runs: Sequence[Figures], claims: Sequence[Claim]) -> dict[str, Any]:
    """Returns each figure's median and spread, against its bounds; a claim must hold in each run.

    >>> told = summed_up([{"late": 3.0}, {"late": 5.0}], [Claim("late", "late", most=4.0)])
    >>> told["figures"]["late"], told["holds"]
    ({'median': 4.0, 'least': 3.0, 'most': 5.0, 'ratio': 1.0}, {'late (at most 4)': False})
    """
    return {
        "figures": {claim.figure: _spread(runs, claim) for claim in claims},
        "thresholds": {claim.figure: claim.bounds for claim in claims},
        "holds": {claim.text: all(map(claim.holds, runs)) for claim in claims},
        "runs": list(runs),
    }


def _spread(runs: Sequence[Figures], claim: Claim) -> dict[str, float | None]:
    values = [run[claim.figure] for run in runs if run.get(claim.figure) is not None]
    if not values:
        return {"median": None, "least": None, "most": None, "ratio": None}
    middle = float(statistics.median(values))
    bound = claim.most if math.isfinite(claim.most) else claim.least
    return {
        "median": middle,
        "least": float(min(values)),
        "most": float(max(values)),
        "ratio": middle / bound if bound and math.isfinite(bound) else None,
    }
