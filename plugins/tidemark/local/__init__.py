"""The local stack: Kafka, Postgres and Airflow on this machine."""
