"""Penstock keeps Spark Structured Streaming jobs fresh under overload."""

__version__ = "0.1.0"
