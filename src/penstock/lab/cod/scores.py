"""Scores how wrong the groups' means are; a group that is missing is wrong by 100 %."""

from dataclasses import dataclass

import numpy as np

from penstock.core.types import Floats
from penstock.lab.cod.recorded import AdmittedTuples, WindowedStream


@dataclass(frozen=True)
class Score:
    """Scores one window."""

    errors: Floats
    """Relative, of each group that was there."""
    missing: int
    kept: int
    arrived: int

    @property
    def mean(self) -> float:
        """Returns the mean error over groups."""
        return float(self.errors.mean())

    @property
    def volume(self) -> float:
        """Returns the share of tuples that was kept."""
        return self.kept / self.arrived


def score(stream: WindowedStream, sample: AdmittedTuples) -> list[Score]:
    """Compares the weighted mean of each group of a window with that of all its tuples."""
    return [_score(stream, sample, window) for window in stream.windows()]


def _score(stream: WindowedStream, sample: AdmittedTuples, window: slice) -> Score:
    group, value = np.unique(stream.group[window], return_inverse=True)[1], stream.value[window]
    kept, weight = sample.kept[window], sample.weight[window] * sample.kept[window]
    size = int(group.max()) + 1
    truth = np.bincount(group, value) / np.bincount(group)
    total = np.bincount(group, weight, size)
    there = np.bincount(group, kept, size) > 0
    estimate = np.divide(
        np.bincount(group, weight * value, size), total, out=np.zeros(size), where=there
    )
    scale = np.where(truth != 0, np.abs(truth), 1.0)
    errors = np.where(there, np.abs(estimate - truth) / scale, 1.0)
    return Score(errors, int((~there).sum()), int(kept.sum()), group.size)


def joined_errors(stream: WindowedStream, sample: AdmittedTuples) -> list[float]:
    """Returns the mean error of each group's number of pairs, of two streams joined."""
    assert stream.source is not None
    errors, groups = [], stream.groups
    for window in stream.windows():
        side = stream.source[window] * groups + stream.group[window]
        came = np.bincount(side, minlength=2 * groups).reshape(2, groups)
        weight = sample.weight[window] * sample.kept[window]
        told = np.bincount(side, weight, 2 * groups).reshape(2, groups)
        pairs, estimate = came.prod(axis=0), told.prod(axis=0)
        both = pairs > 0
        errors.append(float((np.abs(estimate - pairs)[both] / pairs[both]).mean()))
    return errors
