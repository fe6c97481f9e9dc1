"""Mean and spread of each group's values, from a sample, one batch after another."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.types import Floats, Stratum

FADED = 8.0
"""What was learnt in an older pane counts as much as so many values."""


@dataclass(frozen=True, slots=True)
class Moment:
    number: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    """Summed about the mean."""

    def __add__(self, other: "Moment") -> "Moment":
        """Chan, Golub and LeVeque (1979): merged equals whole."""
        number = self.number + other.number
        if number == 0:
            return self
        apart = other.mean - self.mean
        return Moment(
            number,
            self.mean + apart * other.number / number,
            self.squares + other.squares + apart**2 * self.number * other.number / number,
        )


@dataclass(frozen=True)
class Moments:
    groups: Mapping[Stratum, Moment] = field(default_factory=dict)

    def update(self, values: Mapping[Stratum, Iterable[float]]) -> "Moments":
        if not values:
            return self
        groups = dict(self.groups)
        for stratum, some in values.items():
            x = np.array(list(some), dtype=np.float64)
            x = x[np.isfinite(x)]
            if x.size:
                mean = float(x.mean())
                news = Moment(float(x.size), mean, float(((x - mean) ** 2).sum()))
                groups[stratum] = groups.get(stratum, Moment()) + news
        return replace(self, groups=groups)

    def faded(self) -> "Moments":
        """At the end of a pane: a guess for the next one."""
        return replace(
            self,
            groups={
                s: Moment(FADED, m.mean, m.squares * FADED / m.number) if m.number > FADED else m
                for s, m in self.groups.items()
            },
        )

    def only(self, strata: tuple[Stratum, ...]) -> "Moments":
        """Of as many groups as are counted; memory is bounded."""
        if len(self.groups) <= 2 * len(strata):
            return self
        return replace(self, groups={s: self.groups[s] for s in strata if s in self.groups})

    def of(self, strata: tuple[Stratum, ...]) -> tuple[Floats, Floats, Floats]:
        """Numbers, means and squares."""
        found = [self.groups.get(stratum, Moment()) for stratum in strata]
        return (
            np.array([moment.number for moment in found]),
            np.array([moment.mean for moment in found]),
            np.array([moment.squares for moment in found]),
        )
