"""What Airflow loads: pages, their links, a tab on each DAG. No listener: none of it schedules."""

from functools import cached_property
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/tidemark"


class TidemarkPlugin(AirflowPlugin):  # type: ignore[misc]
    """Loaded in each of Airflow's processes; the api-server alone imports the pages."""

    name = "tidemark"
    # Without a slash in front: they are found behind a path prefix too.
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Tidemark",
            "href": "tidemark/",
            "destination": "nav",
            "category": "browse",
            "url_route": "tidemark",
        },
        {
            "name": "Tidemark",
            "href": "tidemark/dag?dag_id={DAG_ID}",
            "destination": "dag",
            "url_route": "tidemark-region",
        },
    ]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The pages."""
        from tidemark.page.app import app

        return [{"app": app, "url_prefix": PREFIX, "name": "Tidemark"}]
