"""Observes when the admitted tuples of a batch arrived: quantiles of a sample, and the oldest.

A sample of some two thousand tuples tells the 95th percentile of a batch's ages to half a percent
of its tuples. It is drawn by chance and not by a hash of the tuple's identity, since an idle gate
knows no such hash. The share to draw comes with the plan, as data, so that nothing is compiled anew
when it changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.core.types import Floats

QUANTILES = 40
"""How many moments, evenly spaced by rank, stand for the arrivals of a batch."""
RANKS = tuple((step + 0.5) / QUANTILES for step in range(QUANTILES))
ACCURACY = 400
"""A quantile is wrong by at most one over this of the sample's ranks."""


@dataclass(frozen=True)
class ArrivalSample:
    """Holds when the admitted tuples of one batch arrived, in seconds since the epoch."""

    moments: Floats
    """The quantiles at ``RANKS``; only the oldest where the sample holds no tuple."""
    admitted: int
    """The tuples that these stand for."""

    def ages(self, at: float) -> Floats:
        """Returns how old the tuples are; one that comes from a clock ahead of ours is new."""
        ages: Floats = np.maximum(at - self.moments, 0.0)
        return ages


def sampled(arrival: Column, drawn: Column) -> Column:
    """Returns the column that the quantiles are made of: milliseconds, or null for most tuples."""
    return sf.when(drawn, sf.unix_millis(arrival)).alias("_sampled")


def metrics(arrival: Column, admitted: Column) -> list[Column]:
    """Observes the quantiles of the sample, and the oldest of all admitted tuples."""
    quantiles = sf.percentile_approx("_sampled", list(RANKS), ACCURACY)
    oldest = sf.min(sf.when(admitted, sf.unix_millis(arrival)))
    return [quantiles.alias("arrivals"), oldest.alias("oldest")]


def arrivals_of(metrics: Mapping[str, Any], admitted: int) -> ArrivalSample | None:
    """Reads what a gate observed; None where no admitted tuple has an arrival.

    Of a few tuples of which none was drawn, all count as the oldest.
    """
    oldest = metrics.get("oldest")
    if oldest is None:
        return None
    moments = metrics.get("arrivals") or [oldest]
    return ArrivalSample(np.array(moments, dtype=np.float64) / 1000, admitted)
