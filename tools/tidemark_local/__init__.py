"""The local stack: Kafka, a registry, Postgres, Spark and Airflow on this machine.

A package of its own beside the library: its extra `local` brings it, and no part of it runs in
production. It listens on loopback alone.
"""
