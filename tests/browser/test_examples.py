"""The example DAGs in a real Airflow, as a user sees them; docs have the pictures."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conftest import PROJECT
from tests.support.browsed import SCREENSHOTS
from tests.support.produce import produce
from tests.support.rest import AirflowUnderTest
from tests.support.topics import create_topic
from tests.support.waiting import until

from tidemark_local._airflow import Airflow
from tidemark_local.stack import LocalStack

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("airflow"),
]

FOLDER = PROJECT / "plugins" / "tidemark" / "airflow" / "example_dags"
TOPIC = "clicks"
CLICKS = [
    {"user_name": name, "page": "/", "clicked_at": "2026-01-31T12:00:00Z"} for name in "abcde"
]
MARGIN = 20
"""Around what a picture shows, in pixels."""
PLAIN = ".react-flow__background, .react-flow__minimap { display: none }"
"""A graph without its dots and its map, which make pictures large."""
RUN = ("open", "drain [2]", "close", "reset", "verdict", "end")
GRAPHS = {
    "example_on_data": {name.replace("2", "1") for name in RUN},
    "example_grouped": {name.replace("2", "1") for name in RUN}
    | {"example_grouped", "report", "tell"},
    "example_by_hand": {"open", "drain [2]", "close", "check", "verdict"},
    "example_reader": {"whole", "count"},
}
"""What stands in the graph of each DAG."""
NEVER_BY_TIME = 'on_data(FILE, floor="0 0 29 2 *")'
"""What starts `example_on_data` here: at a full hour it would take the doorbell's records."""


@pytest.fixture(scope="module")
def api(stack: LocalStack, airflow: Airflow, dags: Path, admin: AdminClient) -> AirflowUnderTest:
    """Airflow, with the examples as a user copies them."""
    if TOPIC not in admin.list_topics(timeout=120).topics:
        create_topic(admin, NewTopic(TOPIC, 2, 1))
    for file in FOLDER.glob("clicks_*"):
        shutil.copy(file, dags)
    by_data = dags / "clicks_on_data.py"
    by_data.write_text(by_data.read_text().replace("on_data(FILE)", NEVER_BY_TIME))
    assert NEVER_BY_TIME in by_data.read_text()
    api = AirflowUnderTest(airflow)
    for dag_id in (*GRAPHS, "example_on_data_reset"):
        api.until_parsed(dag_id, dags)
        api.wait_for_dag(dag_id)  # an earlier session has paused one
    return api


@pytest.fixture(scope="module")
def runs(api: AirflowUnderTest, kafka: str) -> dict[str, str]:
    """A run of each DAG over new clicks, all green; that of `example_on_data` by its doorbell."""
    mark, old = uuid4().hex[:6], rung(api)
    runs = {dag_id: f"{dag_id}-{mark}" for dag_id in GRAPHS}
    api.trigger("example_reader", runs["example_reader"])
    until(lambda: api.tasks("example_reader", runs["example_reader"])["whole"] == "deferred", 300)
    produce(kafka, TOPIC, [json.dumps(one).encode() for one in CLICKS], 0)
    for dag_id in ("example_grouped", "example_by_hand", "example_reader"):
        api.trigger(dag_id, runs[dag_id])
        assert api.wait(dag_id, runs[dag_id]) == "success"
    until(lambda: rung(api) - old, 300)
    runs["example_on_data"] = (rung(api) - old).pop()
    return runs


def rung(api: AirflowUnderTest) -> set[str]:
    """The runs of `example_on_data` that its doorbell started and that are green."""
    found = api.get("dags/example_on_data/dagRuns", state="success", order_by="-id")["dag_runs"]
    return {one["dag_run_id"] for one in found if one["triggered_by"] == "asset"}


@pytest.fixture(scope="module")
def page(session: "Page") -> "Page":
    """The browser, in which graphs are shown first, and large."""
    session.set_viewport_size({"width": 1280, "height": 810})
    session.evaluate("localStorage.default_dag_view = JSON.stringify('graph')")
    return session


@pytest.mark.parametrize("dag_id", GRAPHS)
def test_the_graph_of_an_example_is_green(
    page: "Page", runs: dict[str, str], stack: LocalStack, dag_id: str
) -> None:
    """B24."""
    page.goto(f"/dags/{dag_id}/runs/{runs[dag_id]}")
    page.get_by_label("Collapse Details Panel").click()
    if dag_id == "example_grouped":
        page.get_by_test_id("expand-all-button").click()
    nodes = page.locator(".react-flow__node-task")

    def look() -> set[tuple[str, str]]:
        page.get_by_label("Fit View").click()  # the page leaves out what does not fit
        return shown(nodes)

    green = {(one, "skipped" if one == "reset" else "success") for one in GRAPHS[dag_id]}
    until(lambda: look() == green, 60, look, pause=0.5)
    keep(page, nodes, stack.folder.private(SCREENSHOTS) / f"{dag_id.replace('_', '-')}.png")


def shown(nodes: "Locator") -> set[tuple[str, str]]:
    """The names of tasks and groups, each with its state."""
    texts = (text.split("\n\n") for text in nodes.all_inner_texts())
    return {(name, (rest or [""])[-1].partition("\n")[0]) for name, *rest in texts}


def keep(page: "Page", nodes: "Locator", file: Path) -> None:
    """A picture of the graph alone, once it stands still."""
    looks: list[Any] = [None]

    def is_still() -> bool:
        looks.append(around([box for one in nodes.all() if (box := one.bounding_box())]))
        return bool(looks[-1] == looks[-2])

    until(is_still, 60, pause=0.3)
    page.screenshot(path=file, style=PLAIN, clip=looks[-1])


def around(boxes: list[Any]) -> Any:
    """What holds all of them."""
    left, top = (min(one[side] for one in boxes) - MARGIN for side in "xy")
    right = max(one["x"] + one["width"] for one in boxes) + MARGIN
    bottom = max(one["y"] + one["height"] for one in boxes) + MARGIN
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def test_a_person_approves_a_reset_in_the_browser(
    page: "Page", runs: dict[str, str], api: AirflowUnderTest, stack: LocalStack
) -> None:
    """B24, G219."""
    api.pause("example_on_data")
    dag_id, run_id = "example_on_data_reset", f"approved-{uuid4().hex[:6]}"
    api.trigger(dag_id, run_id, apply=True, to="initial", why="a column was wrong")
    until(lambda: api.tasks(dag_id, run_id)["approve"] in {"awaiting_input", "deferred"}, 300)
    page.goto(f"/dags/{dag_id}/runs/{run_id}/tasks/approve/required_actions")
    page.get_by_role("listitem").filter(has_text="Why: a column was wrong").wait_for()
    page.get_by_label("Fit View").wait_for()
    page.screenshot(path=stack.folder.private(SCREENSHOTS) / "example-approval.png", style=PLAIN)
    page.get_by_role("button", name="Approve").click()
    assert api.wait(dag_id, run_id) == "success"
    assert api.xcom(dag_id, run_id, "reset")["applied"]
