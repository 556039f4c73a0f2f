"""The local stack: Kafka, a registry, Postgres, Spark and Airflow on this machine.

Doors: asking, daemon, errors, postgres, produce, services, stack, watch.

No part of it runs in production, and it listens on loopback alone.
"""
