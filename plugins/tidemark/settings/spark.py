"""The section `spark` of a pipeline file: where the job of a batch runs."""

from typing import Annotated

from pydantic import Field

from tidemark.settings.section import CONNECTION, Strict

SPARK_DEFAULT = "spark_default"
"""Airflow's own name for it. The one connection that need not be there: Spark runs here then."""


class SparkSettings(Strict):
    """Where the job of a batch runs."""

    connection: Annotated[str, Field(pattern=CONNECTION)] = SPARK_DEFAULT
    """Airflow connection of type spark. Without the default one the command line runs it here."""
