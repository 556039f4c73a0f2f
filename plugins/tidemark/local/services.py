"""The names of what a local stack can have; it imports no package of the extra `local`."""

SERVICES = ("kafka", "registry", "postgres", "spark", "airflow")
DEFAULT = ("kafka", "postgres", "airflow")
"""Without a cluster of its own, Spark runs in the drivers' processes; few need a registry."""
