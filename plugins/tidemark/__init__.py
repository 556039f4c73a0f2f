"""Tidemark: Kafka to Postgres in bounded Spark batches with exactly-once offsets."""

__version__ = "0.1.0"
