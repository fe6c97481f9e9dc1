"""Penstock on Spark Structured Streaming.

import penstock.spark as ps      # or: import penstock as ps
"""

from penstock.settings import Terms
from penstock.spark.aggregates import count, mean, sic, sum
from penstock.spark.replay import replay
from penstock.spark.site import Site

__all__ = ["Site", "Terms", "count", "mean", "replay", "sic", "sum"]
