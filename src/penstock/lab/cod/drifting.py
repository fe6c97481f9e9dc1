"""Streams with a concept that drifts as one likes; no download, and the truth is known.

The dials are CoD's (section II-C): between one window and the next, *overlap* is the share of
groups that stay, and *distance* the share of those that change their rank. *Skew* is the exponent
of Zipf's law over the ranks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.types import Floats, Ints
from penstock.lab.cod.recorded import WindowedStream


@dataclass(frozen=True)
class DriftingStream:
    """Makes windows whose groups and frequencies drift from one to the next."""

    groups: int = 100
    """In each window."""
    tuples: int = 12_000
    """In each window."""
    skew: float = 1.0
    overlap: float | Mapping[int, float] = 1.0
    """Or, by number of a window, the overlap with the one before; 1 for those not named."""
    distance: float = 0.0
    spread: float = 0.5
    """The relative standard deviation of values in a group."""
    length: float = 60.0

    def stream(self, windows: int, seed: int = 0) -> WindowedStream:
        """Returns so many windows."""
        rng = np.random.default_rng(seed)
        concept, fresh = np.arange(self.groups), self.groups
        parts: list[Ints] = []
        for number in range(windows):
            if number:
                concept, fresh = self._drifted(concept, fresh, self._overlap(number), rng)
            parts.append(self._drawn(concept, rng))
        group = np.concatenate(parts)
        even = (np.arange(self.tuples) + 0.5) / self.tuples
        time = (np.arange(windows)[:, None] + even).ravel() * self.length
        means = np.exp(rng.normal(3.0, 0.7, fresh))
        return WindowedStream(time, group, means[group] * self._noise(group.size, rng), self.length)

    def _overlap(self, number: int) -> float:
        return (
            self.overlap if isinstance(self.overlap, float | int) else self.overlap.get(number, 1.0)
        )

    def _drifted(
        self, concept: Ints, fresh: int, overlap: float, rng: np.random.Generator
    ) -> tuple[Ints, int]:
        """Returns the next window's groups by rank; new groups take the ranks of the old."""
        gone = np.flatnonzero(rng.permutation(concept.size) >= round(overlap * concept.size))
        concept = concept.copy()
        concept[gone] = np.arange(fresh, fresh + gone.size)
        moved = np.flatnonzero(rng.permutation(concept.size) < round(self.distance * concept.size))
        concept[moved] = concept[rng.permutation(moved)]
        return concept, fresh + gone.size

    def _drawn(self, concept: Ints, rng: np.random.Generator) -> Ints:
        """Draws a window's groups in random order, each at least once."""
        share = 1.0 / np.arange(1, concept.size + 1) ** self.skew
        more = rng.choice(concept, self.tuples - concept.size, p=share / share.sum())
        return np.asarray(rng.permutation(np.concatenate((concept, more))))

    def _noise(self, size: int, rng: np.random.Generator) -> Floats:
        """Draws positive, skewed values of mean 1."""
        shape = 1.0 / self.spread**2
        return rng.gamma(shape, 1.0 / shape, size)
