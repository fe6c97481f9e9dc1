"""A federation in simulation: the same controller, policies and accounts as on Spark."""
