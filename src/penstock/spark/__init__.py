"""Penstock on Spark Structured Streaming; its public names are those of ``penstock``."""
