"""An auth manager under which a user may read the DAGs that the user's name lists."""

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class SomeDags(SimpleAuthManager):  # type: ignore[misc]
    """Airflow's own, but each DAG is asked for, and one of a team by its members alone.

    Logs are read by who is called `… logs`, and runs started by who is called `… trigger`.
    """

    def is_authorized_dag(self, *, user: Any, details: Any = None, **asked: Any) -> bool:
        """Whether the user's name has the DAG's id."""
        names = user.username.split()
        if asked.get("access_entity") is DagAccessEntity.TASK_LOGS and "logs" not in names:
            return False
        if asked.get("access_entity") is DagAccessEntity.RUN and "trigger" not in names:
            return False
        if details is None or (details.team_name and details.team_name not in user.teams):
            return False
        return details.id in names

    def is_authorized_view(self, *, access_view: Any, user: Any) -> bool:
        """Import errors are seen by who is called `… errors`."""
        return access_view is not AccessView.IMPORT_ERRORS or "errors" in user.username.split()
