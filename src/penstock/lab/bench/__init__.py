"""Benchmarks of the gate on real Spark: ``penstock bench``. Ratios inside one run; raw JSON."""
