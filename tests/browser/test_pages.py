"""The pages in Airflow's UI, seen by a real browser: what they say is what the ledger says."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.browsed import HOSTILE, SCREENSHOTS, Browsed, browsed
from tests.support.rest import AirflowUnderTest
from tests.support.topics import create_topic
from tests.support.waiting import until

from tidemark_local._airflow import Airflow
from tidemark_local.stack import LocalStack

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Page

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600), pytest.mark.xdist_group("airflow")]


@pytest.fixture(scope="module")
def world(stack: LocalStack, admin: AdminClient, dags: Path) -> Iterator[Browsed]:
    """The regions to look at."""
    topic = f"t-{uuid4().hex[:12]}"
    create_topic(admin, NewTopic(topic, 2, 1))
    warehouse = stack.postgres.parameters("warehouse")
    yield browsed(dags, stack.kafka.bootstrap, warehouse, topic)
    admin.delete_topics([topic])[topic].exception(120)


@pytest.fixture(scope="module")
def api(world: Browsed, airflow: Airflow, dags: Path) -> AirflowUnderTest:
    """The REST API; a run of the region in trouble has been started, and has failed."""
    api = AirflowUnderTest(airflow)
    for dag_id in ("trouble", "acted_reset", "lost"):
        api.until_parsed(dag_id, dags)
    assert api.run("trouble", f"r-{uuid4().hex[:8]}") == "failed"
    return api


@pytest.fixture
def page(session: "Page", api: AirflowUnderTest) -> Iterator["Page"]:
    """The browser, with DAGs to look at; the page in it has had no error."""
    errors: list[str] = []

    def note(error: Any) -> None:
        errors.append(str(error))

    session.on("pageerror", note)
    yield session
    session.remove_listener("pageerror", note)
    assert errors == []


def region(page: "Page", dag_id: str) -> "FrameLocator":
    """The tab of the DAG."""
    page.goto(f"/dags/{dag_id}/plugin/tidemark-region")
    frame = page.frame_locator("iframe[title=Tidemark]")
    frame.locator("h1").wait_for()
    return frame


def alone(page: "Page", dag_id: str) -> "Page":
    """The same page without Airflow's around it, whose scripts take two seconds to load."""
    page.goto(f"/tidemark/dag?dag_id={dag_id}")
    page.locator("h1").wait_for()
    return page


def fact(frame: "FrameLocator | Page", name: str) -> str:
    return frame.locator(f"[data-fact={name}]").inner_text()


def test_all_regions_stand_in_one_list_the_worst_first(page: "Page", world: Browsed) -> None:
    page.goto("/plugin/tidemark")
    frame = page.frame_locator("iframe[title=Tidemark]")
    row = frame.locator("tr", has_text=world.well.region)
    waiting = row.locator("[data-lag]", has_text=re.compile(r"^\d"))
    waiting.wait_for()
    assert waiting.inner_text() == "2"
    assert re.fullmatch(r"oldest \d+ (s|min)", row.locator("[data-oldest]").inner_text())
    assert row.locator("[data-drift]").inner_text() == "0"
    levels = frame.locator("tr", has_text=world.mark).locator("[data-level]").all_inner_texts()
    assert levels == ["red", "unknown", "behind", "new"]
    assert "2 records wait" in row.inner_text()
    lost = frame.locator("tr", has_text=world.lost).inner_text()
    assert "connection 'nowhere' is not known" in lost
    fresh = frame.locator("tr", has_text=world.fresh)
    assert fresh.locator("[data-lag]").inner_text() == "17"
    assert "17 records wait" in fresh.inner_text()
    trouble = frame.locator("tr", has_text=world.trouble)
    assert trouble.locator("[data-verdict-code]").inner_text() == "INVALID_SETTINGS"
    assert "in the task open" in trouble.inner_text()
    rate = row.locator("[data-rate]").inner_text()
    assert rate == "<1 now, <1 at most"


ROWS = "[data-regions] tbody tr"


def names(frame: "FrameLocator", world: Browsed) -> list[str]:
    """Of these regions, those that are shown, in their order; other tests may have further ones."""
    shown = frame.locator(f"{ROWS}:visible", has_text=world.mark)
    # In one look: the page puts rows into another order when it has heard of their lags.
    found: list[str] = shown.evaluate_all("rows => rows.map((row) => row.dataset.name)")
    return [name.split("_")[0] for name in found]


def test_regions_are_sorted_and_found(page: "Page", world: Browsed) -> None:
    page.goto("/plugin/tidemark")
    frame = page.frame_locator("iframe[title=Tidemark]")
    frame.locator("tr", has_text="17 records wait").wait_for()
    worst_first = ["trouble", "lost", "well", "fresh"]
    assert names(frame, world) == worst_first
    lag = frame.get_by_role("button", name="Lag now")
    for expected in (["fresh", "well", "trouble", "lost"], ["well", "fresh", "trouble", "lost"]):
        lag.click()
        assert names(frame, world) == expected
    lag.click()
    assert names(frame, world) == worst_first
    frame.get_by_role("button", name="Region").click()
    assert names(frame, world) == sorted(worst_first)
    frame.locator("[data-filter]").fill("INVALID_settings")
    assert names(frame, world) == ["lost", "trouble"]
    shown, known = (frame.locator(rows).count() for rows in (f"{ROWS}:visible", ROWS))
    assert frame.locator("[data-found]").inner_text() == f"{shown} of {known}"
    frame.locator("a", has_text="DAG trouble").click()
    page.wait_for_url("**/dags/trouble**")


@pytest.mark.long
def test_the_page_can_stand_alone(page: "Page", world: Browsed) -> None:
    frame = region(page, "well")
    frame.locator("a", has_text="Open alone").click()
    page.wait_for_url("**/tidemark/dag?dag_id=well")
    page.locator("h1", has_text=world.well.region).wait_for()
    assert not page.locator("[data-alone]").is_visible()


def test_a_region_is_told_as_the_ledger_has_it(page: "Page", world: Browsed) -> None:
    """B21: its state, its lag, its checkpoints, its runs as a picture."""
    frame = region(page, "well")
    [(head, epoch, dead)] = world.well.sql(
        "SELECT head_seq, epoch, dead_letters FROM tidemark.region_status WHERE region = %s",
        [world.well.region],
    )
    assert fact(frame, "head_seq") == str(head)
    assert fact(frame, "epoch") == str(epoch)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d", fact(frame, "complete_at"))
    assert fact(frame, "dead_letters") == str(dead) == "1"
    frame.locator("[data-partitions]").wait_for()
    assert fact(frame, "lag") == "2"
    assert re.fullmatch(r"\d+ (s|min)", fact(frame, "oldest"))
    batches = world.well.sql(
        "SELECT seq::text, rows_moved::text FROM tidemark.batches WHERE region = %s"
        " ORDER BY seq DESC",
        [world.well.region],
    )
    rows = frame.locator("[data-checkpoints] tbody tr")
    shown = [
        (row.locator("th").inner_text(), row.locator("td").nth(3).inner_text())
        for row in rows.all()
    ]
    assert shown == batches
    assert frame.locator("[data-picture] svg rect.batch").count() == len(batches)
    frame.locator("[data-chart] svg").nth(4).wait_for()


@pytest.mark.long
def test_times_are_those_of_airflows_time_zone(page: "Page", world: Browsed) -> None:
    [(tokyo, utc)] = world.well.sql(
        "SELECT to_char(max(published_at) AT TIME ZONE 'Asia/Tokyo', 'YYYY-MM-DD HH24:MI:SS'),"
        " to_char(max(published_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
        " FROM tidemark.batches WHERE region = %s",
        [world.well.region],
    )
    told = region(page, "well").locator("[data-checkpoints] time").first
    told.filter(has_text=tokyo).wait_for()  # a script puts it in the place of UTC
    assert told.get_attribute("title") == f"{utc} UTC"


def test_a_dead_letter_is_text_and_never_acts(page: "Page") -> None:
    frame = alone(page, "well")
    frame.locator("[data-letter] summary").click()
    assert "onerror" in frame.locator("[data-value]").inner_text()
    assert frame.locator("img").count() == 0
    assert "hacked" not in page.title()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame.locator("button", has_text="Copy as JSON").click()
    frame.locator("button", has_text="Copied").wait_for()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["value"]["text"] == HOSTILE.decode()


@pytest.mark.long
def test_lag_can_be_read_as_a_table(page: "Page") -> None:
    frame = alone(page, "well")
    frame.locator("[data-chart=lag] svg").wait_for()
    frame.locator("summary", has_text="Lag as a table").click()
    cells = frame.locator("[data-table=lag] tbody tr").last.locator("td").all_inner_texts()
    assert cells[1:] == ["15", "10", "5"]


def past(hours_ago: list[float], seconds: list[float]) -> dict[str, Any]:
    """What charts are drawn from: a batch that long ago each, which took so long."""
    times = [int(1000 * (time.time() - 3600 * ago)) for ago in hours_ago]
    batches = [
        {
            "seq": seq, "state": "published", "at": at, "records": 9, "rows": 9,
            "dead_letters": int(seq == 102), "drain_s": took, "publish_s": 0.1,
            "rows_per_s": 9 / took,
        }
        for seq, (at, took) in enumerate(zip(times, seconds, strict=True), 101)
    ]  # fmt: skip
    lag = {"times": times, "bands": [{"name": "t[0]", "values": [*range(len(times))]}]}
    return {"lag": lag | {"worst": "t[0]"}, "batches": batches, "runs": []}


def texts(frame: "FrameLocator | Page", chart: str) -> list[str]:
    """What is written in a chart."""
    drawn = frame.locator(f"[data-chart={chart}] svg")
    drawn.wait_for()
    return drawn.locator("text").all_text_contents()


@pytest.mark.long
def test_charts_show_the_time_that_is_chosen(page: "Page") -> None:
    told = past([500, 100, 30, 2, 0.5, 0.1], [1.0] * 6)
    page.route("**/dag/charts?*", lambda route: route.fulfill(json=told))
    try:
        frame = alone(page, "well")
        for seconds, first, looks in (("", 101, 6), ("604800", 102, 6), ("86400", 104, 4)):
            frame.locator("[data-range]").select_option(seconds)
            seqs = [text for text in texts(frame, "rows") if len(text) == 3]
            assert seqs == [str(seq) for seq in range(first, 107)]
            assert frame.locator("[data-table=lag] tbody tr").count() == looks  # one from before
        told["batches"] = told["batches"][:1]
        told["lag"]["times"], told["lag"]["bands"][0]["values"] = told["lag"]["times"][:1], [4]
        frame = alone(page, "well")
        frame.locator("[data-range]").select_option("3600")
        frame.locator("[data-chart=lag]", has_text="Nothing in this time.").wait_for()
        frame.locator("[data-range]").select_option("")
        assert "101" in texts(frame, "rows")
    finally:
        page.unroute("**/dag/charts?*")


@pytest.mark.long
def test_one_slow_batch_does_not_press_the_others_flat(page: "Page") -> None:
    """And dead letters, of which there are no halves, have whole ticks."""
    told = past([0.6, 0.5, 0.4, 0.3, 0.2], [1.0, 1.2, 27.9, 1.1, 0.9])
    page.route("**/dag/charts?*", lambda route: route.fulfill(json=told))
    try:
        frame = alone(page, "well")
        shown = texts(frame, "seconds")
        assert "28" in shown
        assert "30" not in shown
        assert not [text for text in texts(frame, "letters") if "." in text]
    finally:
        page.unroute("**/dag/charts?*")


def test_what_broke_is_told_from_the_log(page: "Page") -> None:
    frame = alone(page, "trouble")
    told = frame.locator("[data-code=INVALID_SETTINGS]")
    told.wait_for()
    assert "not-there" in told.inner_text()
    assert frame.locator(".chip.red").count() == 1
    assert "What to do" in frame.locator(".remedy").inner_text()
    told.evaluate("box => { box.textContent = 'rows have no day\\nALTER TABLE t ADD day date;' }")
    assert told.inner_text().splitlines() == ["rows have no day", "ALTER TABLE t ADD day date;"]


def test_a_rewind_is_tried_and_done_and_the_page_changes(
    page: "Page", world: Browsed, api: AirflowUnderTest
) -> None:
    frame = region(page, "acted")
    frame.locator("[data-to='1']").click()
    removed = frame.locator("[data-dry=rows]")
    removed.wait_for()
    [(rows,)] = world.acted.sql(
        f"SELECT count(*) FROM public.{world.acted.region} WHERE batch_seq > 1"
    )
    assert removed.inner_text() == str(rows) != "0"
    assert '"to": "1"' in frame.locator("[data-conf]").inner_text()
    frame.locator("a", has_text="open the reset form").click()
    page.wait_for_url("**/dags/acted_reset**")
    trigger_reset(page, to="1", why="seen in a browser")
    run_id = newest_run(api, "acted_reset")
    assert api.wait("acted_reset", run_id) == "success"
    after = alone(page, "acted")
    assert fact(after, "head_seq") == "1"
    reset = after.locator("[data-resets] tbody tr").first.inner_text()
    assert "rewind to checkpoint 1" in reset
    assert "seen in a browser" in reset
    assert "admin" in reset
    assert after.locator("[data-picture] svg rect.rewound").count() > 0


def test_a_run_is_followed_while_it_is_on(page: "Page", world: Browsed) -> None:
    world.acted.open("live")
    frame = alone(page, "acted")
    frame.locator(".verdict .chip.running").wait_for()
    world.acted.drain("live")
    head = world.acted.close("live").checkpoint.seq
    frame.locator("[data-fact=head_seq]", has_text=re.compile(f"^{head}$")).wait_for()
    frame.locator(".verdict .chip.well").wait_for()


def trigger_reset(page: "Page", to: str, why: str) -> None:
    """Fill Airflow's own form."""
    page.get_by_test_id("trigger-dag-button").first.click()
    form = page.locator("[role=dialog][data-state=open]")
    form.get_by_role("button", name="Reset", exact=True).click()
    form.locator("[name=element_to]").fill(to)
    form.locator("[name=element_why]").fill(why)
    form.locator("label", has=page.locator("[name=element_apply]")).click()
    form.get_by_test_id("trigger-dag-submit").click()
    form.wait_for(state="hidden")


def newest_run(api: AirflowUnderTest, dag_id: str) -> str:
    [run] = api.get(f"dags/{dag_id}/dagRuns", order_by="-id", limit=1)["dag_runs"]
    return str(run["dag_run_id"])


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 1280),
        ("dark", 400),
        pytest.param("light", 400, marks=pytest.mark.long),
        pytest.param("dark", 1280, marks=pytest.mark.long),
    ],
)
def test_pages_are_whole_in_both_themes_and_at_any_width(
    browser: "Browser",
    session: "Page",
    stack: LocalStack,
    theme: Literal["light", "dark"],
    width: int,
) -> None:
    """Also their pictures are kept, in the state folder of the tests."""
    folder = stack.folder.private(SCREENSHOTS)
    context = browser.new_context(
        base_url=stack.airflow.url,
        storage_state=session.context.storage_state(),
        viewport={"width": width, "height": 900},
        color_scheme=theme,
    )
    one = context.new_page()
    for name, path in _PATHS.items():
        look(one, path, folder / f"{name}-{theme}-{width}.png")
        assert one.evaluate("document.documentElement.dataset.theme") == theme
        assert one.evaluate("document.documentElement.scrollWidth") <= width, name
    context.close()


_PATHS = {
    "regions": "/tidemark/",
    "well": "/tidemark/dag?dag_id=well",
    "trouble": "/tidemark/dag?dag_id=trouble",
    "lost": "/tidemark/dag?dag_id=lost",
    "none": "/tidemark/dag?dag_id=none",
}


def look(page: "Page", path: str, file: Path) -> None:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=file, full_page=True)


@pytest.fixture
def broken(api: AirflowUnderTest, dags: Path) -> Iterator[None]:
    """The pipeline file of `well` can't be read; Airflow's own process has seen that."""
    file = dags / "well.yaml"
    whole = file.read_text()
    file.write_text("regoin: well\n")
    (dags / "browsed.py").touch()
    until(lambda: api.get("importErrors")["total_entries"])
    yield
    file.write_text(whole)
    (dags / "browsed.py").touch()
    until(lambda: not api.get("importErrors")["total_entries"])
    api.until_parsed("well", dags)


@pytest.mark.long
@pytest.mark.usefixtures("broken")
def test_regions_stay_when_their_dag_file_is_broken(page: "Page", world: Browsed) -> None:
    page.goto("/plugin/tidemark")
    frame = page.frame_locator("iframe[title=Tidemark]")
    frame.locator("tr", has_text="regoin").first.wait_for()
    assert sorted(names(frame, world)) == ["fresh", "lost", "trouble", "well"]
    ours = frame.locator(ROWS, has_text=world.mark)
    assert ours.locator("[data-level]").all_inner_texts() == ["red"] * 4
    told = frame.locator("tr", has_text=world.well.region).inner_text()
    assert "browsed.py" in told
    assert "well.yaml:1: regoin: unknown key" in told
    assert "Traceback" not in told
    page.goto("/tidemark/dag?dag_id=well")
    assert "well.yaml:1: regoin" in page.locator(".verdict").inner_text()
    page.locator("[data-partitions]").wait_for()
