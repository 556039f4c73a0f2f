"""The link from a task to its region's page."""

from typing import Any
from urllib.parse import quote, urljoin

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

PAGE = "tidemark-region"
"""The tab's name in a DAG's addresses."""


class RegionLink(BaseOperatorLink):  # type: ignore[misc]
    """A button on the task: is the region well, what broke, what to do."""

    name = "Region"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address of the DAG's tab, behind Airflow's own base address."""
        base = conf.get("api", "base_url", fallback="/")
        return urljoin(f"{base.rstrip('/')}/", f"dags/{quote(ti_key.dag_id)}/plugin/{PAGE}")
