"""Penstock on Spark Structured Streaming.

import penstock.spark as ps      # or: import penstock as ps
"""

from penstock.settings import Terms
from penstock.spark.aggregates import corr, count, covar, mean, percentile, sic, stddev, sum, var
from penstock.spark.replay import replay
from penstock.spark.site import Site

__all__ = [
    "Site",
    "Terms",
    "corr",
    "count",
    "covar",
    "mean",
    "percentile",
    "replay",
    "sic",
    "stddev",
    "sum",
    "var",
]
