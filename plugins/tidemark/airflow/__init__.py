"""Airflow: the operator, the task group and the DAG factories."""
