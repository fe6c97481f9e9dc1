"""Penstock where users are: on a real Kafka, from a cold JVM, with neighbours on the machine."""
