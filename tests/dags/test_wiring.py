"""What runs when something fails, and which colour the run has then: Airflow's own rules."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from tests.dags.conftest import PASSWORD, PROJECT

Found = dict[str, dict[str, Any]]

WORKED = dict.fromkeys(("open", "drain", "close", "verdict", "end"), "success")


@pytest.fixture(scope="module")
def everything(environment: dict[str, str], pytestconfig: pytest.Config) -> dict[str, Found]:
    """The tier's scenarios and forms of wiring.py, run by Airflow on a database of its own."""
    whole = ["whole"] if pytestconfig.getoption("--tier") != "test" else []
    return run_by_airflow(environment, "wiring.py", *whole)


def run_by_airflow(environment: dict[str, str], name: str, *arguments: str) -> dict[str, Any]:
    """What a file beside this one prints at its end."""
    secret = {"conn_type": "generic", "password": PASSWORD}
    ids = ("TIDEMARK_KAFKA", "TIDEMARK_WAREHOUSE")
    env = {f"AIRFLOW_CONN_{name}": json.dumps(secret) for name in ids} | environment
    with TemporaryDirectory() as home:  # with a database that no other process uses
        env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{home}/airflow.db"
        command = [sys.executable, str(Path(__file__).with_name(name)), *arguments]
        ended = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert PASSWORD not in ended.stdout + ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
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
    [
        ("the run is not done", "success"),
        pytest.param("a member fails and the run is not done", "failed", marks=pytest.mark.long),
    ],
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
        "end": "failed",
    }


def test_if_open_fails_nothing_else_runs_and_the_run_is_red(found: Found) -> None:
    state, tasks = states(found, "open fails")
    assert (state, tasks.pop("open"), tasks.pop("end")) == ("failed", "failed", "failed")
    assert set(tasks.values()) == {"upstream_failed"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "reset"),
    [("the reset fails too", "failed"), ("the reset is superseded", "success")],
)
def test_red_stays_red_whatever_the_reset_says(found: Found, scenario: str, reset: str) -> None:
    state, tasks = states(found, scenario)
    assert (state, tasks["reset"], tasks["verdict"]) == ("failed", reset, "upstream_failed")


def test_a_run_that_is_not_done_is_not_asked_again(found: Found) -> None:
    assert found["the run is not done"]["tries"]["close"] == 1


@pytest.mark.long
def test_close_is_tried_again_when_postgres_was_away(found: Found) -> None:
    scenario = "Postgres is away for a moment at close"
    assert states(found, scenario) == ("success", WORKED | {"reset": "skipped"})
    assert found[scenario]["tries"]["close"] == 2


@pytest.mark.long
def test_an_open_that_meets_another_run_goes_on_in_the_same_try(found: Found) -> None:
    """G187: Airflow looks again, and counts no try."""
    scenario = "another run is at work for a moment"
    assert states(found, scenario) == ("success", WORKED | {"reset": "skipped"})
    assert [name for name, _ in found[scenario]["calls"]].count("open") == 2
    assert found[scenario]["tries"]["open"] == 1


def test_open_close_and_reset_name_the_same_run(found: Found) -> None:
    scenario = found["the run is not done"]
    names = {name: arguments["run_id"] for name, arguments in scenario["calls"]}
    assert set(names) == {"open", "close", "reset", "verdict"}
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
        pytest.param("the initial state", 0, marks=pytest.mark.long),
        pytest.param("a time", "2026-01-31 12:00:00+00:00", marks=pytest.mark.long),
    ],
)
def test_the_form_says_where_a_reset_goes(resets: Found, form: str, to: object) -> None:
    (call,) = resets[form]["calls"]
    assert call["request_id"] == f"flights_reset/{resets[form]['run_id']}"
    assert (call["to"], call["run_id"]) == (to, None)
    assert call["why"] == ("a drill" if form == "a checkpoint" else None)  # a dry run has no order


@pytest.mark.long
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
    """B11, G185: what a run that failed has published is told by the next, whatever events say."""
    assert found["all is well"]["events"] == [PUBLISHED | {"after_seq": 0, "seq": 7}]
    told = found["something new is published"]["events"]
    assert told == [PUBLISHED | {"after_seq": 7, "seq": 9}]


def test_that_it_was_told_is_confirmed_behind_the_close(found: Found) -> None:
    """G185: Airflow sends the event when the close has ended; one that dies has told nobody."""
    called = [name for name, _ in found["all is well"]["calls"]]
    assert called == ["open", "close", "verdict", "confirm", "verdict"]  # the last is the end's


@pytest.mark.long
def test_no_failure_to_tell_makes_a_closed_run_red(found: Found) -> None:
    """G186: and what nobody was told of, the next close tells."""
    green = ("success", WORKED | {"reset": "skipped"})
    for scenario in ("nothing can be told", "the ledger does not learn what is told"):
        assert states(found, scenario) == green
    assert found["nothing can be told"]["events"] == []
    told = PUBLISHED | {"after_seq": 9, "seq": 11}
    assert found["the ledger does not learn what is told"]["events"] == [told]
    assert found["it is told again"]["events"] == [told]


@pytest.mark.parametrize(
    "scenario",
    [
        "a member fails and others do its work",
        pytest.param("Postgres is away for a moment at close", marks=pytest.mark.long),
    ],
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


@pytest.mark.parametrize(
    "form",
    [
        "as it comes up",
        pytest.param("the initial state", marks=pytest.mark.long),
        pytest.param("as it comes up, applied", marks=pytest.mark.long),
    ],
)
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


@pytest.mark.parametrize("task", ["drain", "close", "reset", "verdict"])
def test_clearing_any_task_clears_open_and_end_too(found: Found, task: str) -> None:
    """G182: by itself alone since Airflow 3.3; with what follows, as its page asks, ever."""
    from tests.support.airflows import SETUPS_COME_ALONG

    cleared = found["the run is not done"]["cleared"][task]
    assert cleared["alone"] == (sorted([task, "open", "end"]) if SETUPS_COME_ALONG else [task])
    assert {task, "open", "end"} <= {*cleared["downstream"]}


@pytest.fixture(scope="module")
def hosts(environment: dict[str, str]) -> Found:
    """Hosts of the group, and a cut of what a person may clear of them."""
    return run_by_airflow(environment, "clears.py")


@pytest.mark.parametrize("host", ["both", "tells"])
def test_a_refused_open_is_red_and_a_hosts_own_tasks_run(hosts: Found, host: str) -> None:
    """G183: also where no other task comes behind the group, by which Airflow judges the run."""
    refused, well = hosts["refused"][host], hosts["well"][host]
    assert (refused["run"], refused["tasks"]["tell"]) == ("failed", "success")
    assert (well["run"], well["tasks"]["tell"], well["tasks"]["end"]) == ("success",) * 3


@pytest.mark.parametrize(
    ("when", "ledger"), [("ended before open", None), ("ended in drain", "superseded")]
)
def test_a_run_that_a_person_ends_is_red_and_leaves_no_open_epoch(
    hosts: Found, when: str, ledger: str | None
) -> None:
    """G183."""
    assert (hosts[when]["run"], hosts[when]["ledger"]) == ("failed", ledger)


def test_a_group_that_a_hosts_task_skips_asks_nothing_and_is_not_red(hosts: Found) -> None:
    """G183: a teardown runs all the same, and no run was to be."""
    found = hosts["skips"]
    assert (found["run"], found["tasks"]["end"], found["told"]) == ("success", "skipped", [])


def test_each_task_of_a_group_names_the_groups_own_run(hosts: Found) -> None:
    """G198: open, drain, close, verdict and end, of two groups of one region in one DAG."""
    names = ("open", "drain", "drain", "close", "check", "check")
    told = [[name, f"twice/run/{group}"] for group in ("a", "b") for name in names]
    assert (hosts["twice"]["run"], sorted(hosts["twice"]["told"])) == ("success", sorted(told))


def test_a_task_may_be_mapped_over_what_close_returns(hosts: Found) -> None:
    """G186: close is not red for want of an XCom that Airflow counts itself."""
    assert (hosts["twice"]["run"], hosts["twice"]["tasks"]["each"]) == ("success", "success")


def test_a_run_that_is_wired_by_hand_is_told_of_once(hosts: Found) -> None:
    """B24, G185: its bound is its only verdict, and confirms what close has told."""
    well = hosts["by hand"]["well"]
    assert (well["run"], well["confirmed"]) == ("success", ["hand/run"])
    assert set(well["tasks"].values()) == {"success"}


def test_what_a_close_that_failed_was_about_to_tell_no_verdict_confirms(hosts: Found) -> None:
    """G229: a host's own task may let the verdict come, and Airflow has sent nothing."""
    well, dies = hosts["judged"]["well"], hosts["judged"]["dies"]
    assert (well["tasks"]["close"], dies["tasks"]["close"]) == ("success", "failed")
    assert (well["tasks"]["verdict"], dies["tasks"]["verdict"]) == ("success", "success")
    assert (well["confirmed"], dies["confirmed"]) == (["judged/run"], [])


@pytest.mark.parametrize(("how", "ledger"), [("refused", None), ("undrained", "superseded")])
def test_a_run_that_is_wired_by_hand_and_not_done_is_red_and_reset(
    hosts: Found, how: str, ledger: str | None
) -> None:
    """G183: what no ResetOperator resets, the bound does; nothing is confirmed."""
    found = hosts["by hand"][how]
    assert (found["run"], found["tasks"]["verdict"]) == ("failed", "failed")
    assert (found["ledger"], found["confirmed"]) == (ledger, [])
    assert found["tasks"]["check"] == "upstream_failed"


@pytest.mark.parametrize(
    ("how", "task", "state"),
    [("unchecked", "check", "failed"), ("unseen", "seen", "upstream_failed")],
)
def test_a_hosts_own_task_before_the_bound_makes_the_run_red(
    hosts: Found, how: str, task: str, state: str
) -> None:
    """B24: Airflow would judge by the bound alone; the run itself is closed, and told of."""
    found = hosts["by hand"][how]
    assert (found["run"], found["tasks"]["verdict"]) == ("failed", "failed")
    assert found["tasks"][task] == state
    assert (found["ledger"], found["confirmed"]) == ("closed", ["hand/run"])


def refuse_undrained(cleared: list[dict[str, Any]]) -> None:
    """No clear makes a run green that was not drained, or leaves an epoch that nobody drains."""
    for one in cleared:
        ends = "g.end" in one["taken"]  # since Airflow 3.3 each clear of the group takes it along
        if one["run"] == "success":
            was_drained = one["was"] in ("closed", "pruned") and one["epoch"] == 1
            assert one["ledger"] == "closed" or (was_drained and not ends), one
        assert one["ledger"] != "open" or (one["epoch"] == 1 and not ends), one
        needed = {"g.open", "g.drain", "g.close", "g.verdict", "g.end"}
        if one["was"] == "failed":
            needed.add("g.reset")  # it had failed: while it has, the verdict does not come
        is_whole = needed <= set(one["taken"])
        assert one["epoch"] == (2 if is_whole else 1), one


def test_no_clear_leaves_an_epoch_that_nobody_drains(hosts: Found) -> None:
    """G182, G183."""
    cleared: Any = hosts["cleared"]
    assert len(cleared) == 6
    refuse_undrained(cleared)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("was", ["closed", "pruned", "failed", "superseded", "open"])
def test_no_subset_that_is_cleared_leaves_an_epoch_that_nobody_drains(
    environment: dict[str, str], was: str
) -> None:
    """G182, G183: each set of tasks that Airflow takes along, each state of the run."""
    cleared = run_by_airflow(environment, "clears.py", was)["cleared"]
    assert len(cleared) > 60
    reported = [one["run"] for one in cleared if one["chosen"] == ["report"]]
    assert reported == ["success" if was in ("closed", "pruned") else "failed"]
    refuse_undrained(cleared)


DONE = dict.fromkeys(("drain_0", "drain_1", "close", "verdict", "end"), "success")
RED = DONE | {"close": "failed", "verdict": "upstream_failed", "end": "failed"}
COMING: dict[str, str | None] = dict.fromkeys(DONE)


@pytest.mark.parametrize("prefix", ["", "flights."])
@pytest.mark.parametrize(
    ("states", "opens"),
    [
        (COMING, True),
        (COMING | {"drain_0": "success"}, True),
        (DONE | {"verdict": None, "end": None}, False),
        (DONE | {"close": None, "verdict": None, "end": None}, False),
        (DONE, False),
        (RED, False),
        (DONE | {"drain_1": None}, None),
        (COMING | {"close": "success"}, None),
        (COMING | {"verdict": "success"}, None),
        (COMING | {"end": "success"}, None),
        ({}, True),
    ],
)
def test_an_open_takes_an_epoch_only_for_drain_close_and_verdict(
    states: dict[str, str | None],
    opens: bool | None,
    prefix: str,
    connections: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G182: whatever task was cleared; None: drain would work, and nobody would judge it."""
    from tidemark.airflow import tasks
    from tidemark.airflow.compat import AirflowFailException

    told = {f"{prefix}{name}": state for name, state in states.items()}
    opened, context = opening(monkeypatch, task_id=f"{prefix}open", states=told)
    if opens is None:
        with pytest.raises(AirflowFailException):
            tasks.open_run(FLIGHTS, context, WAIT)
    else:
        assert (tasks.open_run(FLIGHTS, context, WAIT) is not None) is opens
    assert len(opened) == bool(opens)


FLIGHTS = str(PROJECT / "dags" / "flights.yaml")
WAIT = timedelta(minutes=30)


def opening(
    monkeypatch: pytest.MonkeyPatch,
    *,
    task_id: str = "open",
    states: dict[str, str | None] | None = None,
    run_type: str = "scheduled",
    error: Exception | None = None,
    since: Any = None,
) -> tuple[list[dict[str, Any]], Any]:
    """What the library is told of an open, and the context of one that was put off `since`."""
    from airflow.sdk import DAG

    from tidemark.airflow import pipeline_dag, pipeline_task_group
    from tidemark.runs import open as operation

    ti = SimpleNamespace(
        dag_id="flights",
        run_id="r",
        task_id=task_id,
        get_task_states=lambda **_: {"r": states} if states else {},
        get_first_reschedule_date=lambda _: since,
        try_number=1,
        xcom_push=lambda *_: None,
    )
    run = SimpleNamespace(run_type=run_type, triggering_user_name=None)
    found: list[dict[str, Any]] = []

    def opened(*_: object, **arguments: Any) -> operation.Opened:
        found.append(arguments)
        if error:
            raise error
        return operation.Opened(1, 0, {})

    monkeypatch.setattr(operation, "open_run", opened)
    if "." in task_id:
        with DAG("host", schedule=None) as dag:
            pipeline_task_group(FLIGHTS)
    else:
        dag = pipeline_dag(FLIGHTS)
    return found, {"ti": ti, "task": dag.get_task(task_id), "params": {}, "dag_run": run}


def test_a_backfills_run_opens_nothing(connections: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """G184: also in a host's DAG, which may allow backfills."""
    from tidemark.airflow import tasks
    from tidemark.airflow.compat import AirflowFailException
    from tidemark.airflow.errors import BackfillOfRegion

    opened, context = opening(monkeypatch, run_type="backfill")
    with pytest.raises(AirflowFailException) as refused:
        tasks.open_run(FLIGHTS, context, WAIT)
    assert isinstance(refused.value.__cause__, BackfillOfRegion)
    assert opened == []


@pytest.mark.parametrize("kind", ["at work", "overtaken"])
def test_an_open_that_meets_another_run_waits_without_a_slot_and_not_for_ever(
    kind: str, connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G187."""
    from airflow.sdk import timezone

    from tidemark.airflow import tasks
    from tidemark.airflow.compat import AirflowException, AirflowRescheduleException
    from tidemark.protocol.errors import OpenOvertaken
    from tidemark.runs.errors import AnotherRunAtWork

    error = {
        "at work": AnotherRunAtWork(region="flights", run_id="other/1", quiet_s=3, holders=()),
        "overtaken": OpenOvertaken(region="flights", run_id="flights/r", epoch=1, now_at=2),
    }[kind]
    for since in (None, timezone.utcnow() - WAIT / 2):
        opened, context = opening(monkeypatch, error=error, since=since)
        with pytest.raises(AirflowRescheduleException):
            tasks.open_run(FLIGHTS, context, WAIT)
        assert opened[0]["is_polite"] is True
    _, context = opening(monkeypatch, error=error, since=timezone.utcnow() - WAIT)
    with pytest.raises(AirflowException) as gave_up:
        tasks.open_run(FLIGHTS, context, WAIT)
    assert gave_up.value.__cause__ is error


def test_a_persons_overrides_are_given_in_their_name() -> None:
    """G124: as Airflow knows who triggered the run; of a schedule's, the DAG's file says them."""
    from tidemark.airflow.forms import who

    ti, run = SimpleNamespace(dag_id="flights"), SimpleNamespace(triggering_user_name="alice")
    assert who({"ti": ti, "dag_run": run}) == "alice"
    run.triggering_user_name = None
    assert who({"ti": ti, "dag_run": run}) == "DAG flights"
