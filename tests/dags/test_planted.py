"""What a task or a DAG of others can leave where the pages and the scheduler look: nothing ends."""

import json
import os
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.dags.conftest import token
from tests.support.said import said

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

PLANTED = {"long": "x" * 2000, "dict": {"code": "DATA_LOST"}, "number": 13, "large": "y" * 10**7}


def keep(run: Any, task_id: str, value: Any, second: int, session: Any) -> None:
    """A task of the run has kept this as its error."""
    from airflow.models.xcom import XComModel

    from tidemark.settings.described import ERROR

    instance = next(one for one in run.task_instances if one.task_id == task_id)
    session.add(
        XComModel(
            dag_run_id=run.id, dag_id="flights", run_id=run.run_id, task_id=task_id,
            map_index=instance.map_index, key=ERROR, value=value,
            timestamp=datetime.now(UTC) + timedelta(seconds=second),
        )
    )  # fmt: skip
    session.flush()


def told_of(run: Any, session: Any) -> tuple[str, str] | None:
    """What the pages take from it."""
    from tidemark.page.regions import first_errors

    return first_errors([run.id], session).get(run.id)


def ends(run: Any, state: str, session: Any) -> None:
    """As Airflow's scheduler tells it to its listeners, and keeps it."""
    from airflow.listeners.listener import get_listener_manager
    from airflow.plugins_manager import integrate_listener_plugins
    from airflow.utils.state import DagRunState

    integrate_listener_plugins(get_listener_manager())
    run.state = DagRunState(state)
    run.notify_dagrun_state_changed(msg="said by a test")
    session.commit()


def test_the_first_error_of_a_failed_run_is_told(run: Any, session: Any) -> None:
    keep(run, "close", "RUN_NOT_DONE", 2, session)
    keep(run, "drain", "DATA_LOST", 1, session)
    assert told_of(run, session) == ("drain", "DATA_LOST")


@pytest.mark.parametrize("value", PLANTED.values(), ids=PLANTED)
def test_what_is_no_code_of_ours_is_no_error(run: Any, session: Any, value: Any) -> None:
    """G110. Nor does it hide one that is."""
    keep(run, "drain", value, 1, session)
    assert told_of(run, session) is None
    keep(run, "close", "RUN_NOT_DONE", 2, session)
    assert told_of(run, session) == ("close", "RUN_NOT_DONE")


@pytest.mark.parametrize("value", PLANTED.values(), ids=PLANTED)
def test_whatever_a_task_keeps_the_pages_live(
    client: "TestClient", run: Any, session: Any, value: Any
) -> None:
    keep(run, "drain", value, 1, session)
    ends(run, "failed", session)
    for path in ("/tidemark/", "/tidemark/dag?dag_id=flights"):
        found = client.get(path, headers=token("flights"))
        assert found.status_code == 200
        assert len(found.text) < 10**5


@pytest.mark.parametrize("state", ["failed", "success"])
@pytest.mark.parametrize("value", [*PLANTED.values(), "DATA_LOST"], ids=[*PLANTED, "ours"])
def test_whatever_a_task_keeps_the_scheduler_goes_on(
    run: Any, session: Any, value: Any, state: str
) -> None:
    """B21, G110: nothing of ours hears of it, so nothing of ours can end its loop."""
    keep(run, "drain", value, 1, session)
    ends(run, state, session)
    assert (str(run.state), run.note) == (state, None)


def planted(doc_json: str) -> str:
    """A DAG whose author wrote this for a task, as Airflow's own dag-processor keeps it; its id."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with DAG(f"planted_{uuid4().hex[:8]}", schedule=None) as dag:
        EmptyOperator(task_id="open", doc_json=doc_json)
    DagBundlesManager().sync_bundles_to_db()
    with create_session() as session:
        session.add(DagModel(dag_id=dag.dag_id, bundle_name="dags-folder", is_stale=False))
        session.flush()
        SerializedDagModel.write_dag(
            LazyDeserializedDAG.from_dag(dag), bundle_name="dags-folder", session=session
        )
    return str(dag.dag_id)


def evil(folder: Path, name: str) -> str:
    """What an author may write instead of a pipeline."""
    pipeline: dict[str, Any] = {
        "region": "evil",
        "kafka": {"connection": "tidemark_kafka", "topics": ["t"]},
        "decode": {"format": "raw"},
        "target": {"connection": "tidemark_warehouse", "table": "public.t"},
    }
    if name in ("fifo", "zero"):
        file = Path("/dev/zero") if name == "zero" else folder / "fifo"
        proto = {"format": "protobuf", "schema": {"a": "int"}, "message": "M"}
        pipeline["decode"] = proto | {"descriptor": str(file)}
    if name == "pattern":
        pipeline["kafka"]["topics"] = ["^(a+)+$"]
        pipeline["output"] = {"topic": "a" * 60 + "b"}
    if name == "megabytes":
        pipeline["kafka"]["topics"] = ["t" * 10**7]
    found = {"role": "run", "file": "x", "format": "json", "pipeline": pipeline}
    return json.dumps({"tidemark": found})


@pytest.mark.parametrize("name", ["fifo", "zero", "pattern", "megabytes"])
def test_whatever_a_dag_carries_every_page_of_everybody_lives(
    client: "TestClient", tmp_path: Path, name: str
) -> None:
    """B21, G113."""
    os.mkfifo(tmp_path / "fifo")
    dag_id = planted(evil(tmp_path, name))
    for user in (token("flights"), token("flights", dag_id)):
        for path in ("", "dag?dag_id=flights", f"dag?dag_id={dag_id}"):
            found = client.get(f"/tidemark/{path}", headers=user)
            assert found.status_code == 200
            assert len(found.text) < 10**5
    found = client.get("/tidemark/", headers=token("flights", dag_id))
    assert "region=flights" in found.text
    assert ("region=evil" in found.text) == (name == "pattern")


def test_of_dags_without_our_mark_nothing_is_loaded(
    client: "TestClient", session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.page import regions

    stranger, loaded = planted(json.dumps({"other": "x"})), []
    texts = regions._texts

    def watched(*asked: Any) -> Iterator[tuple[str, str]]:
        for dag_id, text in texts(*asked):
            loaded.append(dag_id)
            yield dag_id, text

    monkeypatch.setattr(regions, "_texts", watched)
    monkeypatch.setattr(regions, "_KNOWN", {})
    found = regions.carried(session)
    assert "flights" in found
    assert {*loaded} == {*found} | {one for one in loaded if one.startswith("planted_")}
    assert stranger not in {*loaded, *found}
    loaded.clear()
    assert regions.carried(session) == found
    assert loaded == []


@pytest.mark.parametrize("size", [10, 10**8])
def test_a_dag_that_airflow_has_compressed_is_read_as_far_as_that_is_bounded(size: int) -> None:
    from tidemark.page.regions import _unpacked

    whole = b"x" * size
    assert _unpacked(zlib.compress(whole)) == ("x" * size if size == 10 else "")


def test_the_plugin_has_no_listener() -> None:
    """G110."""
    from airflow.listeners.listener import get_listener_manager
    from airflow.plugins_manager import integrate_listener_plugins

    from tidemark.page.plugin import TidemarkPlugin

    assert TidemarkPlugin.listeners == []
    integrate_listener_plugins(get_listener_manager())
    heard = map(str, get_listener_manager().pm.get_plugins())
    assert not [one for one in heard if "tidemark" in one]


def test_an_error_is_the_tasks_own_though_its_code_can_not_be_kept() -> None:
    """Outside a task, as when Airflow's API does not answer."""
    from tidemark.airflow.compat import AirflowFailException
    from tidemark.airflow.results import as_airflow_failure
    from tidemark.errors import Refused

    with pytest.raises(AirflowFailException, match="REFUSED: no"), as_airflow_failure():
        raise said(Refused, "no")
