"""Mean and spread of each group's values, from a sample, one batch after another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.types import Floats, Stratum

FADED_VALUES = 8.0
"""What was learnt in an older pane counts as much as so many values."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The moments of one group's values."""

    number: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    """Squared distances from the mean, summed."""

    def __add__(self, other: "Moment") -> "Moment":
        """Merges two, which equals the whole (Chan, Golub and LeVeque, 1979)."""
        number = self.number + other.number
        if number == 0:
            return self
        apart = other.mean - self.mean
        return Moment(
            number,
            self.mean + apart * other.number / number,
            self.squares + other.squares + apart**2 * self.number * other.number / number,
        )

    def faded(self) -> "Moment":
        """Answers the same mean and spread, as of few values."""
        if self.number <= FADED_VALUES:
            return self
        return Moment(FADED_VALUES, self.mean, self.squares * FADED_VALUES / self.number)


@dataclass(frozen=True)
class Moments:
    """The moments of the values of many groups."""

    groups: Mapping[Stratum, Moment] = field(default_factory=dict)

    def update(self, values: Mapping[Stratum, Iterable[float]]) -> "Moments":
        """Answers the moments with some more values of some groups."""
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
        """Answers, at the end of a pane, a guess for the next one."""
        return replace(self, groups={s: moment.faded() for s, moment in self.groups.items()})

    def only(self, strata: Sequence[Stratum]) -> "Moments":
        """Answers the moments of groups that are still counted, so that memory is bounded."""
        if len(self.groups) <= 2 * len(strata):
            return self
        return replace(self, groups={s: self.groups[s] for s in strata if s in self.groups})

    def of(self, strata: tuple[Stratum, ...]) -> tuple[Floats, Floats, Floats]:
        """Answers the numbers, means and squares of these groups."""
        found = [self.groups.get(stratum, Moment()) for stratum in strata]
        return (
            np.array([moment.number for moment in found]),
            np.array([moment.mean for moment in found]),
            np.array([moment.squares for moment in found]),
        )
