"""What the newest run of a region's reset DAG told: a dry run of it is as green as a rewind."""

from airflow.models.xcom import XComModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.page.seen import SeenRegion
from tidemark.settings.described import Role

CHARS = 1500
"""Of a sentence that a task wrote; no more of its result leaves the database."""


def told(seen: SeenRegion, session: Session) -> tuple[str, str] | None:
    """The run and its sentence; None where the user may not read that DAG, or it told nothing."""
    region, summary = (XComModel.value[name].as_string() for name in ("region", "summary"))
    newest = session.execute(
        select(XComModel.run_id, region == seen.name, func.substr(summary, 1, CHARS))
        .where(XComModel.dag_id == seen.dags.get(Role.reset), XComModel.key == "return_value")
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    ).first()
    run_id, is_ours, sentence = newest or ("", False, None)
    return (run_id, sentence or "") if is_ours else None
