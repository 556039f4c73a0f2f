"""Kafka: facts, membership, the mirror and the reading of spans."""
