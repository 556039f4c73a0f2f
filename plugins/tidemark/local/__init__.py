"""The local stack: Kafka, a registry, Postgres, Spark and Airflow on this machine.

Doors: asking, daemon, errors, produce, services, stack, watch.

No part of it runs in production, and it listens on loopback alone.
"""
