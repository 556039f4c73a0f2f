"""What the newest run of a region's reset DAG told: a dry run of it is as green as a rewind."""

from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.page.seen import SeenRegion
from tidemark.settings.described import Role


def told(seen: SeenRegion, session: Session) -> tuple[str, str] | None:
    """The run and its sentence; None where the user may not read that DAG, or it told nothing."""
    newest = session.execute(
        select(XComModel.run_id, XComModel.value)
        .where(XComModel.dag_id == seen.dags.get(Role.reset), XComModel.key == "return_value")
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    ).first()
    value = newest.value if newest else None
    if newest is None or not isinstance(value, dict) or value.get("region") != seen.name:
        return None
    return newest.run_id, str(value.get("summary", ""))
