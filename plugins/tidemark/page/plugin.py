"""What Airflow loads: pages, their links, a tab on each DAG. No listener: none of it schedules."""

import logging
from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)

PREFIX = "/tidemark"

# Without a slash in front: they are found behind a path prefix too.
VIEWS: tuple[dict[str, Any], ...] = (
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
)


class TidemarkPlugin(AirflowPlugin):  # type: ignore[misc]
    """Loaded in each of Airflow's processes; the api-server alone imports the pages."""

    name = "tidemark"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The pages; none where this Airflow lacks what they lean on, which no DAG needs."""
        try:
            from tidemark.page.app import app
        except (ImportError, AttributeError) as error:
            log.warning(
                "There are no pages of Tidemark, as this version of Airflow lacks something that"
                " they need: %s. DAGs run all the same; tidemark status shows their regions",
                error,
            )
            return []
        return [{"app": app, "url_prefix": PREFIX, "name": "Tidemark"}]

    @cached_property
    def external_views(self) -> list[dict[str, Any]]:
        """The links to the pages, if there are any."""
        return [*VIEWS] if self.fastapi_apps else []
