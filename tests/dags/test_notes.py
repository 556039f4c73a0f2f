"""The note of a failed run, in Airflow's own metadata database."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.dags.conftest import fill_metadata
from tests.support.said import said

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

NOTE = "Tidemark: DATA_LOST in the task drain. A person decides"


@pytest.fixture(scope="module")
def metadata(bag: "DagBag") -> None:
    """Airflow's database, with this project's DAGs."""
    fill_metadata(bag)


@pytest.fixture
def session(metadata: None) -> Iterator[Any]:
    from airflow.utils.session import create_session

    with create_session() as session:
        yield session


@pytest.fixture
def run(session: Any) -> Any:
    """A run whose tasks kept two errors; the one of `drain` is the first."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.xcom import XComModel
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    from tidemark.settings.described import ERROR

    dag = SerializedDagModel.get_dag("flights", session=session)
    version = DagVersion.get_latest_version("flights", session=session)
    now = datetime.now(UTC)
    run = DagRun(
        dag_id="flights", run_id=f"r-{uuid4().hex[:8]}", logical_date=now, run_after=now,
        run_type=DagRunType.MANUAL, state=DagRunState.RUNNING,
        triggered_by=DagRunTriggeredByType.TEST,
    )  # fmt: skip
    session.add(run)
    session.flush()
    run.dag = dag
    run.verify_integrity(session=session, dag_version_id=version.id)
    kept = (("close", "RUN_NOT_DONE", 2), ("drain", "DATA_LOST", 1))
    for task_id, code, second in kept:
        instance = next(one for one in run.task_instances if one.task_id == task_id)
        session.add(
            XComModel(
                dag_run_id=run.id, dag_id="flights", run_id=run.run_id, task_id=task_id,
                map_index=instance.map_index, key=ERROR, value=code,
                timestamp=now + timedelta(seconds=second),
            )
        )  # fmt: skip
    session.flush()
    return run


def ended(run: Any, state: str) -> str | None:
    """As Airflow's scheduler tells its listeners; returns the note."""
    from airflow.listeners.listener import get_listener_manager
    from airflow.plugins_manager import integrate_listener_plugins
    from airflow.utils.state import DagRunState

    integrate_listener_plugins(get_listener_manager())
    run.state = DagRunState(state)
    run.notify_dagrun_state_changed(msg="said by a test")
    note: str | None = run.note
    return note


def test_the_first_error_of_a_failed_run_is_its_note(run: Any, session: Any) -> None:
    """B21."""
    assert str(ended(run, "failed")).startswith(NOTE)
    session.flush()
    session.expire(run)
    assert run.note.startswith(NOTE)


def test_a_run_that_succeeds_after_all_bears_no_note_of_a_failure(run: Any) -> None:
    ended(run, "failed")
    assert ended(run, "success") is None


def test_what_a_person_noted_stays(run: Any) -> None:
    run.note = "seen by the night shift"
    for state in ("failed", "success"):
        assert ended(run, state) == "seen by the night shift"


def test_a_run_without_an_error_of_ours_gets_no_note(run: Any, session: Any) -> None:
    from airflow.models.xcom import XComModel
    from sqlalchemy import delete

    session.execute(delete(XComModel).where(XComModel.dag_run_id == run.id))
    assert ended(run, "failed") is None
    assert run.dag_run_note is None


def test_an_error_is_the_tasks_own_though_its_code_can_not_be_kept() -> None:
    """Outside a task, as when Airflow's API does not answer."""
    from airflow.sdk.exceptions import AirflowFailException

    from tidemark.airflow.failures import as_airflow_failure
    from tidemark.errors import Refused

    with pytest.raises(AirflowFailException, match="REFUSED: no"), as_airflow_failure():
        raise said(Refused, "no")
