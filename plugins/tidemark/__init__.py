"""Tidemark: Kafka to Postgres in bounded Spark batches with exactly-once offsets."""

__version__ = "0.1.0"
DISTRIBUTION = "airflow-provider-tidemark"
"""What pip installs: `tidemark` on PyPI is another project's program."""
