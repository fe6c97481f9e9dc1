"""The controller and what it works with: no Spark, no clock, no I/O."""
