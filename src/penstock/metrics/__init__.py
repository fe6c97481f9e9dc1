"""What a monitoring system collects of a site and of the oracle, in Prometheus' form."""
