"""Penstock on Spark Structured Streaming; its public names are those of ``penstock``."""

from penstock.core.settings import QueryTerms
from penstock.sources.replay import replay
from penstock.spark.site import Site
from penstock.spark.window_processor import process_windows
from penstock.windows.concept import Concept

__all__ = ["Concept", "QueryTerms", "Site", "process_windows", "replay"]
