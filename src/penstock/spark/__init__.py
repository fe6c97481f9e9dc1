"""Penstock on Spark Structured Streaming.

import penstock.spark as ps      # or: import penstock as ps
"""

from penstock.concept import Concept
from penstock.settings import Terms
from penstock.spark.aggregates import (
    corr,
    count,
    covar,
    mean,
    percentile,
    sic,
    stddev,
    sum,
    var,
    within,
)
from penstock.spark.replay import replay
from penstock.spark.site import Site
from penstock.spark.window_processor import process_windows

__all__ = [
    "Concept",
    "Site",
    "Terms",
    "corr",
    "count",
    "covar",
    "mean",
    "percentile",
    "process_windows",
    "replay",
    "sic",
    "stddev",
    "sum",
    "var",
    "within",
]
