"""The pages in Airflow's own api-server app: who sees what, and what no answer holds."""

import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg2
import pytest
from tests.dags.conftest import PASSWORD, PROJECT, token
from tests.support.region import postgres_connection

from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import connect

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

PAGES = (
    "/tidemark/",
    "/tidemark/lags",
    "/tidemark/dag?dag_id=flights",
    "/tidemark/dag/live?dag_id=flights",
    "/tidemark/dag/charts?dag_id=flights",
    "/tidemark/dag/failure?dag_id=flights",
    "/tidemark/dag/now?dag_id=flights",
    "/tidemark/dag/dry-run?dag_id=flights&to=last",
    "/tidemark/static/page.js",
)
OF_REGION = [path for path in PAGES if "/dag/" in path]


def ask(client: "TestClient", path: str, user: dict[str, str] | None = None) -> Any:
    """As the page asks: a dry run is no link to follow."""
    return client.request("POST" if "dry-run" in path else "GET", path, headers=user)


@pytest.mark.parametrize("path", PAGES)
def test_without_a_token_nothing_is_answered(client: "TestClient", path: str) -> None:
    answer = ask(client, path)
    assert answer.status_code == 401
    assert "flights" not in answer.text


@contextmanager
def connection_of(team: str | None) -> Iterator[None]:
    """The warehouse's connection is in Airflow's database, and belongs to this team."""
    from airflow.models.connection import Connection
    from airflow.models.team import Team
    from airflow.utils.session import create_session

    fields = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "warehouse"}
    fields |= {"team_name": team} if team else {}
    with create_session() as session:
        session.add_all([Team(name=team)] if team else [])
        session.flush()
        session.add(Connection(conn_id="tidemark_warehouse", **fields))
    try:
        yield
    finally:
        with create_session() as session:
            session.query(Connection).delete()
            session.query(Team).delete()


@pytest.mark.parametrize("team", ["blue", None])
def test_the_page_says_that_it_finds_no_connection_of_a_team(
    client: "TestClient", monkeypatch: pytest.MonkeyPatch, team: str | None
) -> None:
    """G136: one that belongs to no team is found, and its server asked."""
    from tests.support.airflows import IS_3_1

    if team and IS_3_1:
        pytest.skip("Airflow 3.1 has no teams")
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # as the api-server sets it
    monkeypatch.delenv("AIRFLOW_CONN_TIDEMARK_WAREHOUSE")
    with connection_of(team):
        told = client.get("/tidemark/dag/live?dag_id=flights", headers=token("flights")).text
    assert ("One that belongs to a team is never found" in told) == bool(team)
    assert ("Connection refused" in told) == (team is None)


@pytest.fixture
def of_blue(client: "TestClient", monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The DAGs belong to a team."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.team import Team
    from airflow.utils.session import create_session
    from tests.support.airflows import IS_3_1

    if IS_3_1:
        pytest.skip("Airflow 3.1 has no teams")
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    with create_session() as session:
        bundle = session.get(DagBundleModel, "dags-folder")
        bundle.teams.append(Team(name="blue"))
    yield
    with create_session() as session:
        bundle = session.get(DagBundleModel, "dags-folder")
        bundle.teams.clear()
        session.flush()
        session.query(Team).delete()


@pytest.mark.usefixtures("of_blue")
@pytest.mark.parametrize(("teams", "status"), [(("blue",), 200), (("red",), 404), ((), 404)])
def test_a_region_of_a_teams_dag_is_seen_by_its_members(
    client: "TestClient", teams: tuple[str, ...], status: int
) -> None:
    """B21: as Airflow shows the DAG itself."""
    headers = token("flights", teams=teams)
    assert client.get("/tidemark/dag/failure?dag_id=flights", headers=headers).status_code == status
    assert ("region=flights" in client.get("/tidemark/", headers=headers).text) is (status == 200)


def test_a_log_that_ends_before_the_ledgers_offset_leaves_the_page_as_it_is(
    client: "TestClient",
) -> None:
    """What the live part is told then is a lag below 0."""
    told = client.get("/tidemark/dag/live?dag_id=flights&lag=-200", headers=token("flights"))
    assert told.status_code == 200
    assert "The ledger can&#39;t be asked" in told.text


def test_who_may_read_a_dag_sees_its_region(client: "TestClient") -> None:
    found = client.get("/tidemark/", headers=token("flights", "orders_cdc"))
    assert found.status_code == 200
    assert "region=flights" in found.text
    assert "region=orders_cdc" in found.text


def test_of_a_dag_that_may_not_be_read_nothing_is_seen(client: "TestClient") -> None:
    """B21: a user who may not read the DAG sees nothing of its region."""
    stranger = token("orders_cdc")
    for path in ("/tidemark/", "/tidemark/lags"):
        found = client.get(path, headers=stranger)
        assert found.status_code == 200
        assert "flights" not in found.text
    assert "no Tidemark region" in client.get(PAGES[2], headers=stranger).text
    for path in OF_REGION:
        found = ask(client, path, stranger)
        assert found.status_code == 404
        assert found.json() == {"detail": "No DAG that you may read has such a region"}


@pytest.mark.parametrize("path", OF_REGION)
def test_one_may_not_name_anothers_region_beside_ones_own_dag(
    client: "TestClient", path: str
) -> None:
    own = path.replace("dag_id=flights", "dag_id=orders_cdc&region=flights")
    assert ask(client, own, token("orders_cdc")).status_code == 404


def test_who_may_read_the_reset_alone_is_not_led_to_the_run(client: "TestClient") -> None:
    found = client.get("/tidemark/dag?dag_id=flights_reset", headers=token("flights_reset")).text
    assert "<h1>flights</h1>" in found
    assert 'href="../dags/flights_reset"' in found
    assert 'href="../dags/flights"' not in found


def test_who_may_not_read_logs_is_not_shown_what_they_say(
    client: "TestClient", monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.page import app as pages
    from tidemark.page.failure import Failure
    from tidemark.page.seen import AirflowRun, SeenRegion
    from tidemark.settings.described import Described, Role
    from tidemark.settings.pipeline import Pipeline

    described = Described.of(Pipeline.load(PROJECT / "dags" / "flights.yaml"), Role.run)
    failed = AirflowRun(1, "flights", "r", "failed", None, None)
    seen = SeenRegion(described, {Role.run: ("flights",)}, last_run=failed)
    monkeypatch.setitem(pages.app.dependency_overrides, pages._region, lambda: seen)
    told = Failure("drain", 0, "DATA_LOST", "the log's own words")
    monkeypatch.setattr(pages, "failure", lambda *_: told)
    path = "/tidemark/dag/failure?dag_id=flights"
    assert client.get(path, headers=token("flights")).status_code == 403
    assert "the log&#39;s own words" in client.get(path, headers=token("flights", "logs")).text


@pytest.mark.parametrize("path", PAGES)
def test_no_answer_holds_a_secret(client: "TestClient", path: str) -> None:
    found = ask(client, path, token("flights", "flights_reset", "logs", "trigger"))
    assert found.status_code == 200
    assert PASSWORD not in found.text


def test_a_ledger_that_cannot_be_asked_is_told_and_the_rest_is_there(client: "TestClient") -> None:
    found = client.get("/tidemark/dag?dag_id=flights", headers=token("flights")).text
    assert "UNREACHABLE" in found
    assert "tidemark_warehouse" in found
    assert "public.flights, append" in found


def test_a_statement_that_waits_is_given_up(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locked table keeps none of the api-server's threads for longer."""
    from psycopg2.errorcodes import QUERY_CANCELED

    from tidemark.page import ledgers
    from tidemark.page.region import region_view
    from tidemark.page.seen import SeenRegion
    from tidemark.postgres.errors import GAVE_UP
    from tidemark.runs.errors import ConnectionUnreachable
    from tidemark.settings.described import Described, Role
    from tidemark.settings.pipeline import Pipeline

    monkeypatch.setattr(ledgers, "STATEMENT_SECONDS", 1)
    given = {"tidemark_warehouse": postgres_connection(warehouse)}
    engine = connect(warehouse)
    migrate(engine)
    engine.dispose()
    described = Described.of(Pipeline.load(PROJECT / "dags" / "flights.yaml"), Role.run)
    seen = SeenRegion(described, {Role.run: ("flights",)})
    with closing(psycopg2.connect(**warehouse)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE tidemark.regions")
        [(_, answer)] = ledgers.standings([seen], given)
        for problem in (answer.problem, region_view(seen, given).problem):
            assert isinstance(problem, ConnectionUnreachable)
            assert GAVE_UP[QUERY_CANCELED] in problem.cause
    [(_, answer)] = ledgers.standings([seen], given)
    assert answer.problem is None


def test_a_dry_run_is_for_who_may_start_the_reset(client: "TestClient") -> None:
    """G117: it asks as much of Postgres and Kafka as the reset DAG's own; no link starts it."""
    path = "/tidemark/dag/dry-run?dag_id=flights&to=last"
    assert ask(client, path, token("flights", "flights_reset")).status_code == 403
    assert ask(client, path, token("flights", "flights_reset", "trigger")).status_code == 200
    assert client.get(path, headers=token("flights", "trigger")).status_code == 405
    hidden = ask(client, path, token("flights", "trigger"))
    assert hidden.status_code == 403, "the right to run is none to reset, whoever sees the reset"
    assert "flights_reset" not in hidden.text


def test_records_are_shown_to_who_may_read_logs(
    client: "TestClient", monkeypatch: pytest.MonkeyPatch
) -> None:
    """G118: a dead letter holds more than a log."""
    from tidemark.page import app as pages
    from tidemark.page.question import Answer, Question

    asked: list[bool] = []

    async def look(question: Question) -> Answer:
        asked.append(question.args["shows_records"])
        return Answer("")

    monkeypatch.setattr(pages, "ask_ledgers", look)
    for user in (token("flights"), token("flights", "logs")):
        assert client.get("/tidemark/dag?dag_id=flights", headers=user).status_code == 200
    of_reset = "/tidemark/dag?dag_id=flights_reset"
    assert client.get(of_reset, headers=token("flights_reset", "logs")).status_code == 200
    assert asked == [False, True, False], "the logs are those of the DAG that runs the region"


def test_of_two_dags_that_run_a_region_the_one_that_ran_last_is_judged(
    client: "TestClient",
) -> None:
    """B21: a copied DAG file, by whatever name, hides no failure; each tab shows the region."""
    from tidemark.page.ledgers import LedgerAnswer
    from tidemark.page.regions import Kept, Schedule, seen_regions
    from tidemark.page.seen import AirflowRun
    from tidemark.page.verdict import verdict
    from tidemark.settings.described import Described, Role
    from tidemark.settings.pipeline import Pipeline
    from tidemark.views.verdict import Level

    described = Described.of(Pipeline.load(PROJECT / "dags" / "flights.yaml"), Role.run)
    failed = AirflowRun(7, "flights", "r", "failed", None, None)
    older = AirflowRun(5, "a_copy", "r", "success", None, None)
    known = Kept(
        carried={"a_copy": (described,), "flights": (described,), "never": (described,)},
        schedules={
            "a_copy": Schedule(True, None, None),
            "flights": Schedule(False, None, "@daily"),
        },
        runs={"flights": failed, "a_copy": older},
        unread=(),
        teams={},
    )
    user = SimpleNamespace(username="flights a_copy", teams=(), role="viewer")
    [seen] = seen_regions(user, known)
    assert seen.dags == {Role.run: ("flights", "a_copy")}
    assert seen.all_dags == {Role.run: ("flights", "a_copy", "never")}
    assert (seen.last_run, seen.is_paused, seen.schedule) == (failed, False, "@daily")
    assert verdict(seen, LedgerAnswer()).level is Level.red


def test_a_connection_of_airflows_database_is_found(
    client: "TestClient", monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    from tidemark.page.asking import connection

    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # as the api-server sets it
    with create_session() as session:
        session.add(Connection("in_database", "postgres", host="h", schema="s", password=PASSWORD))
    found = connection("in_database")
    assert (found.host, found.schema, found.password) == ("h", "s", PASSWORD)
    assert PASSWORD not in repr(found)


TRACE = """Traceback (most recent call last):
  File "/somewhere/flights.py", line 5, in <module>
    dag = pipeline_dag("flights.yaml")
tidemark.settings.errors.PipelineInvalid: not a pipeline: f.yaml:2: <b>regoin</b>: unknown;
  did you mean 'region'?
"""


@pytest.fixture
def unread(client: "TestClient") -> Iterator[str]:
    """Airflow's dag-processor can't read flights.py any more; the file's name."""
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.models.dag import DagModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session

    at = ("dags-folder", str(PROJECT / "dags" / "flights.py"))
    with create_session() as session:
        update_dag_parsing_results_in_db(at[0], None, [], {at: TRACE}, None, set(), session=session)
    yield at[1]
    with create_session() as session:
        session.query(ParseImportError).delete()
        session.get(DagModel, "flights").is_stale = False


@pytest.mark.parametrize("path", ["/tidemark/", "/tidemark/dag?dag_id=flights"])
def test_a_region_whose_file_cannot_be_read_stays_and_says_so(
    client: "TestClient", unread: str, path: str
) -> None:
    found = client.get(path, headers=token("flights", "errors")).text
    assert 'class="chip red"' in found
    assert f"read {unread}" in found
    assert "not a pipeline: f.yaml:2: &lt;b&gt;regoin" in found
    assert "did you mean" in found
    assert "Traceback" not in found
    assert "/somewhere/" not in found


def test_an_import_error_is_told_to_who_may_see_it(
    client: "TestClient", unread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Airflow tells it: its permission, and all DAGs of the file."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    found = client.get("/tidemark/", headers=token("flights")).text
    assert f"read {unread}" in found
    assert "regoin" not in found
    assert unread not in client.get("/tidemark/", headers=token("orders_cdc", "errors")).text
    with create_session() as session:
        neighbour = session.get(DagModel, "orders_cdc")
        own, neighbour.relative_fileloc = neighbour.relative_fileloc, unread
    try:
        found = client.get("/tidemark/", headers=token("flights", "errors")).text
        assert f"read {unread}" in found
        assert "regoin" not in found
        found = client.get("/tidemark/", headers=token("flights", "orders_cdc", "errors")).text
        assert "regoin" in found
    finally:
        with create_session() as session:
            session.get(DagModel, "orders_cdc").relative_fileloc = own


def test_a_dag_without_a_region_says_so(client: "TestClient") -> None:
    found = client.get("/tidemark/dag?dag_id=other", headers=token("other"))
    assert (found.status_code, "no Tidemark region" in found.text) == (200, True)


def test_nothing_but_the_pages_own_files_is_given(client: "TestClient") -> None:
    for name in ("echarts.LICENSE", "..%2Fapp.py", "app.py"):
        answer = client.get(f"/tidemark/static/{name}", headers=token("flights"))
        assert answer.status_code == 404


def test_pages_are_framed_by_airflow_alone_and_load_nothing_from_elsewhere(
    client: "TestClient",
) -> None:
    headers = client.get("/tidemark/", headers=token("flights")).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    for file in (PROJECT / "plugins/tidemark/page").rglob("*.html"):
        assert "http" not in file.read_text(), file.name


def test_every_address_is_relative_so_that_a_path_prefix_is_no_matter(client: "TestClient") -> None:
    seen = token("flights", "flights_reset", "trigger")
    for path in (path for path in PAGES if "static" not in path and "lags" not in path):
        for address in re.findall(r'(?:href|src|action)="([^"]+)"', ask(client, path, seen).text):
            assert not address.startswith("/"), (path, address)
    for script in ("page.js", "charts.js"):
        text = (PROJECT / "plugins/tidemark/page/static" / script).read_text()
        assert re.findall(r"""(?:fetch|fragment)\([`"']/""", text) == []


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_file_in_plugins_is_for_an_airflow_without_the_package(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    """A second one of the same name would be skipped, and listed as an error of the plugins."""
    if not is_installed:
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    found = runpy.run_path(str(PROJECT / "plugins" / "tidemark_plugin.py"))
    assert ("TidemarkPlugin" in found) is not is_installed


def test_each_task_leads_to_its_regions_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """B21: one click from what is red to what it means."""
    from tests.support.airflows import DagSerialization

    from tidemark.airflow import pipeline_dag, reset_dag
    from tidemark.airflow.compat import conf
    from tidemark.airflow.step import RegionLink
    from tidemark.page.plugin import VIEWS

    for dag in (pipeline_dag(PROJECT / "dags/flights.yaml"), reset_dag("dags/flights.yaml")):
        for task in DagSerialization.from_dict(DagSerialization.to_dict(dag)).tasks:
            assert [*task.operator_extra_link_dict] == ["Region"], task.task_id
    [of_dag] = [v for v in VIEWS if v["destination"] == "dag"]
    monkeypatch.setattr(conf, "get", lambda *_, **__: "https://example.com/airflow")
    found = RegionLink().get_link(None, ti_key=SimpleNamespace(dag_id="a b"))
    assert found == f"https://example.com/airflow/dags/a%20b/plugin/{of_dag['url_route']}"


@pytest.mark.parametrize("role", ["reset", "replay"])
@pytest.mark.parametrize(("region", "is_told"), [("flights", True), ("others", False)])
def test_what_a_dry_run_by_hand_said_is_told(
    client: "TestClient", region: str, is_told: bool, role: str
) -> None:
    """To who may read the DAG that said it, and to nobody else."""
    sentence = "Dry run: would remove 7 rows of public.flights (batch 2). Nothing was changed."
    with told_by(role, {"summary": sentence, "region": region}):
        path = "/tidemark/dag?dag_id=flights"
        found = client.get(path, headers=token("flights", f"flights_{role}")).text
        assert (sentence in found) == is_told
        assert sentence not in client.get(path, headers=token("flights")).text


@contextmanager
def told_by(role: str, result: dict[str, Any]) -> Iterator[None]:
    """A run of the DAG of this role whose task has returned this."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import delete

    now, run_id, dag_id = datetime.now(UTC), f"dry-{uuid4().hex[:8]}", f"flights_{role}"
    with create_session() as session:
        version = DagVersion.get_latest_version(dag_id, session=session)
        run = DagRun(
            dag_id=dag_id, run_id=run_id, logical_date=now, run_after=now,
            run_type=DagRunType.MANUAL, state=DagRunState.SUCCESS,
            triggered_by=DagRunTriggeredByType.TEST,
        )  # fmt: skip
        session.add(run)
        session.flush()
        run.dag = SerializedDagModel.get_dag(dag_id, session=session)
        run.verify_integrity(session=session, dag_version_id=version.id)
        session.add(
            XComModel(
                dag_run_id=run.id, dag_id=dag_id, run_id=run_id, task_id=role,
                key="return_value", value=result, timestamp=now,
            )
        )  # fmt: skip
    yield
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.run_id == run_id))


def test_where_airflow_lacks_what_the_pages_need_there_are_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B21: no link leads nowhere, and the log says why, once; a DAG imports none of it."""
    from tidemark.page.plugin import TidemarkPlugin

    plugin = TidemarkPlugin()
    assert len(plugin.external_views) == 2
    monkeypatch.setitem(sys.modules, "tidemark.page.app", None)
    plugin = TidemarkPlugin()
    for _ in range(2):
        assert (plugin.fastapi_apps, plugin.external_views) == ([], [])
    [warned] = [one for one in caplog.records if one.name == "tidemark.page.plugin"]
    assert "tidemark.page.app" in warned.getMessage()
