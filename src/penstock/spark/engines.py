"""Which engine a session needs."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.connect_engine import ConnectEngine
from penstock.spark.engine import Engine
from penstock.spark.site_engine import SiteEngine

CONNECT_MODULE = "pyspark.sql.connect."


def engine_of(spark: SparkSession | Any) -> SiteEngine:
    """Returns what answers a site's questions to the Spark of a session."""
    if type(spark).__module__.startswith(CONNECT_MODULE):
        return ConnectEngine(spark)
    return Engine(spark)
