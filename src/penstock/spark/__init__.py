"""Penstock on Spark Structured Streaming.

import penstock.spark as ps      # or: import penstock as ps
"""

from penstock.core.settings import QueryTerms
from penstock.sources.replay import replay
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
from penstock.spark.site import Site
from penstock.spark.window_processor import process_windows
from penstock.windows.concept import Concept

__all__ = [
    "Concept",
    "QueryTerms",
    "Site",
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
