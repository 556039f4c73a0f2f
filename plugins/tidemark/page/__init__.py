"""The region's page in Airflow's UI: it reads the ledger and Kafka, and never writes."""
