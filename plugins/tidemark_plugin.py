"""Airflow's plugin, for an Airflow that finds Tidemark in this folder and not as a package."""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="tidemark"):  # else Airflow has it from there
    from tidemark.page.plugin import TidemarkPlugin  # noqa: F401
