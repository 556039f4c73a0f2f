"""What runs when something fails, and which colour the run has then: Airflow's own rules."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.dags.conftest import PASSWORD, PROJECT

Found = dict[str, dict[str, Any]]

WORKED = {"open": "success", "drain": "success", "close": "success", "verdict": "success"}


@pytest.fixture(scope="module")
def everything(environment: dict[str, str]) -> dict[str, Found]:
    """Each scenario and each form of wiring.py, run by Airflow on a database of its own."""
    secret = {"conn_type": "generic", "password": PASSWORD}
    ids = ("TIDEMARK_KAFKA", "TIDEMARK_WAREHOUSE")
    env = environment | {f"AIRFLOW_CONN_{name}": json.dumps(secret) for name in ids}
    wiring = [sys.executable, str(Path(__file__).with_name("wiring.py"))]
    ended = subprocess.run(wiring, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert PASSWORD not in ended.stdout + ended.stderr
    answer: dict[str, Found] = json.loads(ended.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def found(everything: dict[str, Found]) -> Found:
    """The scenarios of a run."""
    return everything["runs"]


@pytest.fixture(scope="module")
def resets(everything: dict[str, Found]) -> Found:
    """The forms of a reset by hand."""
    return everything["resets"]


def states(found: Found, scenario: str) -> tuple[str, dict[str, str]]:
    return found[scenario]["run"], found[scenario]["tasks"]


def test_all_well_is_green_without_a_reset(found: Found) -> None:
    assert states(found, "all is well") == ("success", WORKED | {"reset": "skipped"})


def test_a_failed_member_whose_work_others_did_leaves_the_run_green(found: Found) -> None:
    """H7: the reset hangs on close, and close waits for every member."""
    expected = WORKED | {"drain": "failed", "reset": "skipped"}
    assert states(found, "a member fails and others do its work") == ("success", expected)


@pytest.mark.parametrize(
    ("scenario", "drain"),
    [("the run is not done", "success"), ("a member fails and the run is not done", "failed")],
)
def test_a_run_that_is_not_done_is_reset_and_stays_red(
    found: Found, scenario: str, drain: str
) -> None:
    state, tasks = states(found, scenario)
    assert state == "failed"
    assert tasks == {
        "open": "success",
        "drain": drain,
        "close": "failed",
        "reset": "success",
        "verdict": "upstream_failed",
    }


def test_if_open_fails_nothing_else_runs_and_the_run_is_red(found: Found) -> None:
    state, tasks = states(found, "open fails")
    assert (state, tasks.pop("open")) == ("failed", "failed")
    assert set(tasks.values()) == {"upstream_failed"}


@pytest.mark.parametrize(
    ("scenario", "reset"),
    [("the reset fails too", "failed"), ("the reset is superseded", "success")],
)
def test_red_stays_red_whatever_the_reset_says(found: Found, scenario: str, reset: str) -> None:
    state, tasks = states(found, scenario)
    assert (state, tasks["reset"], tasks["verdict"]) == ("failed", reset, "upstream_failed")


def test_a_run_that_is_not_done_is_not_asked_again(found: Found) -> None:
    assert found["the run is not done"]["tries"]["close"] == 1


def test_close_is_tried_again_when_postgres_was_away(found: Found) -> None:
    scenario = "Postgres is away for a moment at close"
    assert states(found, scenario) == ("success", WORKED | {"reset": "skipped"})
    assert found[scenario]["tries"]["close"] == 2


def test_open_close_and_reset_name_the_same_run(found: Found) -> None:
    scenario = found["the run is not done"]
    names = {name: arguments["run_id"] for name, arguments in scenario["calls"]}
    assert set(names) == {"open", "close", "reset"}
    assert set(names.values()) == {f"flights/{scenario['run_id']}"}


def test_the_form_bounds_the_run_and_the_file_bounds_the_rest(found: Found) -> None:
    (_, opened), *_ = found["all is well"]["calls"]
    assert opened["bounds"].startswith("Bounds(max_records=50000,")
    assert "max_batches=5" in opened["bounds"]
    assert "max_bytes=9000" in opened["bounds"]


def test_open_is_told_the_overrides_that_are_on_and_no_other(found: Found) -> None:
    (_, opened), *_ = found["all is well"]["calls"]
    assert opened["overrides"] == ["accept_changes"]


def test_mapped_drains_are_labelled_as_the_ledger_names_them(found: Found) -> None:
    assert found["all is well"]["members"] == ["drain[0]", "drain[1]"]


@pytest.mark.parametrize(
    ("form", "to"),
    [
        ("as it comes up", None),
        ("a checkpoint", 41),
        ("the initial state", 0),
        ("a time", "2026-01-31 12:00:00+00:00"),
    ],
)
def test_the_form_says_where_a_reset_goes(resets: Found, form: str, to: object) -> None:
    (call,) = resets[form]["calls"]
    assert call["request_id"] == f"flights_reset/{resets[form]['run_id']}"
    assert (call["to"], call["run_id"]) == (to, None)
    assert call["why"] == ("a drill" if form == "a checkpoint" else None)  # a dry run has no order


def test_an_order_to_reset_without_a_reason_is_by_hand(resets: Found) -> None:
    (call,) = resets["as it comes up, applied"]["calls"]
    assert call["why"] == "by hand"


def test_a_place_that_is_none_fails_at_once_and_resets_nothing(resets: Found) -> None:
    ended = resets["no such day"]
    assert (ended["state"], ended["tries"], ended["calls"]) == ("failed", 1, [])


def test_xcom_keeps_what_a_rewind_removes(resets: Found) -> None:
    summary = resets["a checkpoint"]["report"]["summary"]
    assert summary.startswith("Removed 2 rows of public.flights and 1 dead letter (batch")
    assert resets["a checkpoint"]["report"]["removed"] == {
        "batches": 3, "rows": 2, "dead_letters": 1,
        "offsets": {"flights[0]": 70}, "margins": {"flights[0]": 5}, "lost": [], "seconds": {},
        "replays": 0, "by_target": {},
    }  # fmt: skip


PUBLISHED = {
    "kind": "published", "region": "flights", "epoch": 3, "batches": 2, "rows": 30,
    "dead_letters": 4, "offsets": {"flights[0]": 42},
}  # fmt: skip


def test_the_asset_event_says_what_is_new_since_the_last_one(found: Found) -> None:
    """B11: what a run that failed has published is told by the next."""
    assert found["all is well"]["events"] == [PUBLISHED | {"after_seq": 0, "seq": 7}]
    told = found["something new is published"]["events"]
    assert told == [PUBLISHED | {"after_seq": 7, "seq": 9}]


@pytest.mark.parametrize(
    "scenario",
    ["a member fails and others do its work", "Postgres is away for a moment at close"],
)
def test_a_run_that_moved_nothing_tells_nobody(found: Found, scenario: str) -> None:
    assert found[scenario]["tasks"]["close"] == "success"
    assert found[scenario]["events"] == []


def test_a_rewind_tells_what_it_took_back(resets: Found) -> None:
    assert resets["a checkpoint"]["events"] == [
        {
            "kind": "rewound", "region": "flights", "epoch": 3, "from_seq": 7, "seq": 4,
            "batches_removed": 3, "rows_removed": 2, "dead_letters_removed": 1,
            "offsets": {"flights[0]": 40},
        }
    ]  # fmt: skip


def test_a_rewind_that_was_told_is_not_told_again(resets: Found) -> None:
    """The stand-in reports the same epoch again, as a cleared task does."""
    cleared = resets["the same checkpoint, cleared"]
    assert (cleared["state"], cleared["events"]) == ("success", [])


@pytest.mark.parametrize("form", ["as it comes up", "the initial state", "as it comes up, applied"])
def test_neither_a_dry_run_nor_a_reset_that_removes_nothing_tells_anybody(
    resets: Found, form: str
) -> None:
    assert (resets[form]["state"], resets[form]["events"]) == ("success", [])


def test_a_run_that_is_not_done_tells_nobody(found: Found) -> None:
    assert found["the run is not done"]["events"] == []


def test_each_task_tells_its_result_in_short_lines(found: Found) -> None:
    lines = found["all is well"]["lines"]
    assert [line for line in lines if not line.startswith("OPEN")] == [
        "  to read     34 offsets, up to the target offsets",
        "  partition   target offset",
        "  flights[0]             42",
        "DONE: region flights, epoch 3",
        "  published   2 batches: 30 rows, 4 dead letters",
        "  checkpoint  7, in public.flights and in Kafka's group offsets",
        "  partition   next offset",
        "  flights[0]           42",
        "DONE: public.flights and Kafka stand at checkpoint 7",
        "  this run    2 batches: 30 rows, 4 dead letters",
        "  look at     tidemark dead-letters flights",
    ]


def test_xcom_keeps_what_a_run_did(found: Found) -> None:
    xcoms = found["all is well"]["xcoms"]
    assert xcoms["open"] == {
        "epoch": 3, "backlog": 34, "targets": {"flights[0]": 42}, "remarks": ["a remark"],
    }  # fmt: skip
    assert xcoms["close"] == {
        "region": "flights", "epoch": 3, "seq": 7, "offsets": {"flights[0]": 42},
        "batches": 2, "rows": 30, "dead_letters": 4, "records": 34,
    }  # fmt: skip
    reset = found["the run is not done"]["xcoms"]["reset"]
    assert (reset["region"], reset["offsets"], reset["removed"]) == (
        "flights", {"flights[0]": 40}, None,
    )  # fmt: skip


def test_nobody_takes_a_dry_run_for_a_rewind(resets: Found) -> None:
    dry, done = resets["the initial state"]["lines"], resets["a checkpoint"]["lines"]
    assert dry[0] == "DRY RUN: rewind of region flights. NOTHING WAS CHANGED. It would:"
    assert dry[-1] == "To do it, trigger the DAG again with Apply switched on"
    assert done[:2] == [
        "DONE: rewind of region flights",
        "  epoch       3; every process of an earlier epoch is fenced",
    ]
    assert done[3:] == [
        "  head        batch 7 -> 4; 3 batches are removed",
        "  removed     2 rows of public.flights, 1 dead letter",
        "  Kafka       the group's offsets go back with the ledger's, by 30 in all",
        "  partition   from  to  read again  margin",
        "  flights[0]    70  40          30       5",
    ]


@pytest.mark.parametrize("task", ["drain", "close", "reset", "verdict"])
def test_clearing_any_task_clears_open_too(found: Found, task: str) -> None:
    assert found["the run is not done"]["cleared"][task] == sorted([task, "open"])


DONE = {"drain_0": "success", "drain_1": "success", "verdict": "success"}
RED = {"drain_0": "success", "drain_1": "success", "verdict": "upstream_failed"}


@pytest.mark.parametrize("prefix", ["", "flights."])
@pytest.mark.parametrize(
    ("states", "come"),
    [
        (dict.fromkeys(DONE), True),
        (DONE | {"drain_1": None, "verdict": None}, True),
        (DONE | {"verdict": None}, False),
        (DONE, False),
        (RED, False),
        (DONE | {"drain_1": None}, None),
        (RED | {"drain_0": None}, None),
        ({}, True),
    ],
)
def test_an_open_is_told_whether_members_come(
    states: dict[str, str | None],
    come: bool | None,
    prefix: str,
    connections: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G97: whatever task was cleared; None: nobody would judge what they do."""
    from airflow.sdk.exceptions import AirflowFailException

    from tidemark.airflow import tasks
    from tidemark.runs import open as operation

    told = {f"{prefix}{name}": state for name, state in states.items()}
    ti = SimpleNamespace(
        dag_id="flights",
        run_id="r",
        task_id=f"{prefix}open",
        get_task_states=lambda **_: {"r": told} if told else {},
    )
    found: list[bool] = []

    def opened(*_: object, **arguments: Any) -> operation.Opened:
        found.append(arguments["members_come"])
        assert arguments["who"] == "DAG flights"
        return operation.Opened(1, 0, {})

    monkeypatch.setattr(tasks, "get_current_context", lambda: {"ti": ti, "params": {}})
    monkeypatch.setattr(operation, "open_run", opened)
    path = str(PROJECT / "dags" / "flights.yaml")
    if come is None:
        with pytest.raises(AirflowFailException):
            tasks.open_run(path)
    else:
        tasks.open_run(path)
    assert found == ([] if come is None else [come])


def test_a_persons_overrides_are_given_in_their_name() -> None:
    """G124: as Airflow knows who triggered the run; of a schedule's, the DAG's file says them."""
    from tidemark.airflow.forms import who

    ti, run = SimpleNamespace(dag_id="flights"), SimpleNamespace(triggering_user_name="alice")
    assert who({"ti": ti, "dag_run": run}) == "alice"
    run.triggering_user_name = None
    assert who({"ti": ti, "dag_run": run}) == "DAG flights"


def test_members_come_after_the_first_open(found: Found) -> None:
    """As Airflow itself tells the tasks' states."""
    (_, opened), *_ = found["all is well"]["calls"]
    assert opened["members_come"] is True
