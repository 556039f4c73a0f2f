"""What the page says first of a region."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.said import said

from tidemark.errors import TidemarkError, Unreachable, by_code
from tidemark.ledger.history import DAY_PARTS, Standing
from tidemark.ledger.queries import Completeness
from tidemark.ledger.starts import NO_STARTS, Starts
from tidemark.page.html import page, rate, sparkline
from tidemark.page.lags import Lag
from tidemark.page.ledgers import LedgerAnswer
from tidemark.page.region import RegionView
from tidemark.page.seen import AirflowRun, SeenRegion, UnreadFile
from tidemark.page.verdict import error_in
from tidemark.page.verdict import verdict as judged_by
from tidemark.settings.described import Described, Role
from tidemark.settings.pipeline import Pipeline
from tidemark.views.status import PartitionStatus, RegionStatus
from tidemark.views.verdict import Level, Verdict, remedy, verdict_of

FLIGHTS = Path(__file__).resolve().parents[2] / "dags" / "flights.yaml"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seen(state: str | None = "success", ended: float = 60, **others: Any) -> SeenRegion:
    """A region whose newest DAG run ended so many seconds after noon."""
    described = Described.of(Pipeline.load(FLIGHTS), Role.run)
    run = None
    if state:
        end = NOON + timedelta(seconds=ended) if state in ("success", "failed") else None
        run = AirflowRun(1, "flights", "r1", state, NOON, end)
    return SeenRegion(described, {Role.run: ("flights",)}, last_run=run, **others)


def standing(state: str = "closed", **others: Any) -> Standing:
    found: dict[str, Any] = {
        "region": "flights", "state": state, "epoch": 2, "head_seq": 7, "target_lag": 0,
        "last_checkpoint_at": NOON, "last_checkpoint_age": 5.0, "dead_letters": 0,
        "consecutive_resets": 0, "run_id": "flights/r1", "run_state": "failed", "reason": None,
        "newest_run_at": NOON, "newest_reset_at": None,
        "day_dead_letters": 0, "day_parts": [47], "day_rows": [60],
        "day_since": None,
    }  # fmt: skip
    return Standing(**found | others)


def verdict(
    seen: SeenRegion,
    standing: Standing | None,
    problem: TidemarkError | None = None,
    starts: Starts = NO_STARTS,
    **kafka: Any,
) -> Verdict:
    """By what ledger and Kafka would answer."""
    return judged_by(seen, LedgerAnswer(standing, problem, starts), Lag(**kafka))


def test_a_region_that_is_done_is_well() -> None:
    found = verdict(seen(), standing())
    assert (found.level, found.sentence) == (Level.well, "All is published up to checkpoint 7.")


def test_a_region_that_never_ran_is_new_and_says_what_to_do() -> None:
    found = verdict(seen(None), None)
    assert (found.level, found.remedy) == (Level.new, "Start its first run.")


def test_a_first_run_that_failed_before_it_opened_is_red() -> None:
    assert verdict(seen("failed"), None).level is Level.red


def test_a_ledger_that_cannot_be_asked_is_told_with_the_remedy() -> None:
    found = verdict(seen(), None, said(Unreachable, "no route to it"))
    assert (found.level, found.code) == (Level.unknown, "UNREACHABLE")
    assert "no route to it" in found.sentence
    assert found.remedy == Unreachable.hint


def test_a_run_that_is_on_says_how_far_it_is() -> None:
    found = verdict(seen("running"), standing("open", target_lag=1200))
    assert found.level is Level.running
    assert "1,200 offsets" in found.sentence


def test_an_open_epoch_without_a_run_is_red() -> None:
    found = verdict(seen("failed"), standing("open"))
    assert found.level is Level.red
    assert "has ended without a reset" in found.sentence


def test_the_run_of_a_group_is_known_as_that_of_its_dag_run() -> None:
    """G198: whose id stands before the group's."""
    of_group = standing("open", run_id="flights/r1/clicks")
    assert "has ended without a reset" in verdict(seen("failed"), of_group).sentence
    of_other = standing("open", run_id="flights/r10")
    assert "did not open" in verdict(seen("failed"), of_other).sentence


def test_an_open_epoch_of_the_command_line_is_running() -> None:
    assert verdict(seen(), standing("open", run_id="cli/1")).level is Level.running


FAILED = [standing("failed"), standing("reset", consecutive_resets=1)]


MOVED = standing("reset", consecutive_resets=1, run_state="closed")
"""An epoch of no run, after one that closed without a publish."""


@pytest.mark.parametrize("found", FAILED)
def test_a_run_that_failed_last_is_red_with_the_ledgers_reason(found: Standing) -> None:
    judged = verdict(seen("failed"), replace(found, reason="batch 8 is planned"))
    assert (judged.level, judged.code) == (Level.red, "RUN_NOT_DONE")
    assert "(flights/r1): batch 8 is planned." in judged.sentence


@pytest.mark.parametrize("airflow", [None, "success", "failed", "running"])
@pytest.mark.parametrize("found", [*FAILED, standing("reset"), MOVED])
def test_the_page_and_the_command_line_judge_a_run_alike(
    airflow: str | None, found: Standing
) -> None:
    """By the ledger: Airflow may have deleted its DAG run, and a reset by hand is an answer."""
    status = RegionStatus(
        "flights", found.state, epoch=2, head_seq=7, run_id=found.run_id, reason=found.reason,
        run_state=found.run_state, consecutive_resets=found.consecutive_resets,
        max_consecutive_resets=5,
        partitions=(PartitionStatus("t", 0, 10, 10, 10),),
    )  # fmt: skip
    assert verdict(seen(airflow), found) == verdict_of(status)


def test_a_task_that_failed_after_its_run_was_closed_is_told_as_that() -> None:
    found = verdict(seen("failed"), standing("closed"))
    assert (found.level, found.code) == (Level.red, None)
    assert "the region was closed before a task of the DAG failed" in found.sentence


@pytest.mark.parametrize("found", FAILED)
def test_a_newer_run_that_did_not_open_is_told_before_the_failed_one(found: Standing) -> None:
    """A person decides over lost data, whatever failed before."""
    airflow = seen("failed")
    assert airflow.last_run
    airflow.last_run = replace(airflow.last_run, error=("open", "DATA_LOST"))
    judged = verdict(airflow, replace(found, run_id="flights/r0"))
    assert (judged.level, judged.code) == (Level.red, "DATA_LOST")
    assert "in the task open (flights/r1)" in judged.sentence


@pytest.mark.parametrize(
    ("seconds", "code", "level"),
    [
        (61, "DATA_LOST", Level.well),  # the reset came after it ended
        (59, "FENCED", Level.well),  # the reset ended it
        (59, "DATA_LOST", Level.red),  # it was cleared, and failed anew
        (59, None, Level.red),
    ],
)
def test_a_reset_by_hand_ends_what_failed_before_it(
    seconds: int, code: str | None, level: Level
) -> None:
    airflow = seen("failed", ended=60)
    assert airflow.last_run
    if code:
        airflow.last_run = replace(airflow.last_run, error=("open", code))
    at = NOON + timedelta(seconds=seconds)
    assert verdict(airflow, standing("reset", newest_reset_at=at)).level is level


def test_a_run_that_another_took_over_is_told_with_its_own_code() -> None:
    airflow = seen("failed")
    assert airflow.last_run
    airflow.last_run = replace(airflow.last_run, error=("drain", "FENCED"))
    found = verdict(airflow, standing("closed", run_id="cli/1"))
    assert (found.level, found.code) == (Level.red, "FENCED")
    assert "in the task drain (flights/r1): it did not open, or" in found.sentence


def test_the_code_that_the_failed_task_kept_is_told_rather_than_that_the_run_is_not_done() -> None:
    failed = seen("failed")
    assert failed.last_run
    failed.last_run = replace(failed.last_run, error=("drain", "SCHEMA_MISMATCH"))
    for found in (verdict(failed, standing("failed")), verdict(failed, None)):
        assert (found.level, found.code) == (Level.red, "SCHEMA_MISMATCH")
        assert found.remedy == remedy("SCHEMA_MISMATCH")
        assert "in the task drain" in found.sentence


def test_a_file_that_cannot_be_read_is_red_whatever_the_ledger_says() -> None:
    found = verdict(seen(unread=UnreadFile("dags/f.py", "what is wrong")), standing())
    assert found.level is Level.red
    assert "dags/f.py, so no run starts: what is wrong" in found.sentence


@pytest.mark.parametrize(
    ("lag", "told"),
    [(None, "It has not run yet."), (303, "303 records wait"), (1, "1 record waits")],
)
def test_what_waits_for_a_region_that_never_ran_is_told(lag: int | None, told: str) -> None:
    found = verdict(seen(None), None, lag=lag)
    assert found.level is Level.new
    assert told in found.sentence


def test_a_ledger_ahead_of_kafka_is_red_while_no_run_is_on() -> None:
    short = ("t[1]",)
    found = verdict(seen(is_paused=True), standing(), lag=490, short=short)
    assert (found.level, found.code) == (Level.red, "DATA_LOST")
    assert found.sentence == "In Kafka the log of t[1] ends before the ledger's offset."
    running = verdict(seen("running"), standing("open"), lag=490, short=short)
    assert running.level is Level.running


def test_a_failed_dag_run_is_over_once_another_run_has_closed() -> None:
    later = NOON + timedelta(seconds=90)
    assert verdict(seen("failed"), standing(newest_run_at=later)).level is Level.well


def test_too_many_resets_in_a_row_are_red_though_the_ledger_is_at_rest() -> None:
    found = verdict(seen(), standing("reset", consecutive_resets=5))
    assert (found.level, found.code) == (Level.red, "REFUSED")


@pytest.mark.parametrize(
    ("others", "level"),
    [
        ({"is_paused": True, "schedule": "@hourly"}, Level.behind),
        ({}, Level.behind),
        ({"schedule": "@hourly", "next_run_at": NOON}, Level.well),
        ({"schedule": "Asset"}, Level.well),
    ],
)
def test_records_wait_only_if_no_run_will_read_them(others: Any, level: Level) -> None:
    assert verdict(seen(**others), standing(), lag=9).level is level
    assert verdict(seen(**others), standing(), lag=0).level is Level.well


@pytest.mark.parametrize(("state", "level"), [("closed", Level.behind), ("open", Level.running)])
def test_drift_is_told_of_a_region_at_rest(state: str, level: Level) -> None:
    """At work the mirror follows the publish."""
    found = verdict(seen("running"), standing(state), drifting=2)
    assert found.level is level


@pytest.mark.parametrize("kind", by_code().values())
def test_a_remedy_is_the_errors_hint_with_its_code_as_code(kind: type[TidemarkError]) -> None:
    assert remedy(kind.code) == kind.hint
    shown = page("problem.html", code=kind.code, text="x", remedy=kind.hint)
    assert "`" not in shown
    assert shown.count("<code>") == 1 + kind.hint.count("`") / 2


def test_a_region_that_two_dags_run_is_not_well() -> None:
    """B21"""
    twice = replace(seen("success"), dags={Role.run: ("flights", "a_copy")})
    found = verdict(twice, standing(run_state="closed"))
    assert (found.level, found.sentence) == (
        Level.behind,
        "2 DAGs run this region: a_copy and flights.",
    )


def test_a_ledger_without_a_region_whose_run_was_green_is_another_one() -> None:
    """B21: not new, whatever the readers' connection leads to."""
    found = verdict(seen("success"), None, lag=3)
    assert found.level is Level.unknown
    assert "flights/r1 succeeded, but the ledger of" in found.sentence


@pytest.mark.parametrize("code", [None, "OF_A_NEWER_VERSION"])
def test_of_an_error_that_is_not_known_the_log_tells_more(code: str | None) -> None:
    assert remedy(code) == "Read its log."


def test_what_stands_between_backticks_is_text_too() -> None:
    shown = page("problem.html", code="REFUSED", text="x", remedy="Remove `<b>` & <i>.")
    assert "Remove <code>&lt;b&gt;</code> &amp; &lt;i&gt;." in shown


def test_a_log_tells_the_last_error_and_not_the_operators_word() -> None:
    lines = [
        "UNREACHABLE: the first try",
        "Cannot execute: spark-submit …\nINFO batch 1 published\nDATA_LOST: flights[0] is gone\nso",
        "DATA_LOST: no retry can help\nCannot execute",
        "Post Execute",
    ]
    assert error_in(lines) == ("DATA_LOST", "flights[0] is gone\nso")
    assert error_in(["nothing", "OTHER_CODE: x"]) is None


def test_a_sparkline_says_in_words_what_it_draws() -> None:
    rows = [0] * (DAY_PARTS - 1) + [6000]
    assert standing(day_rows=[6000]).rows_by_part == rows
    drawn = sparkline(rows)
    assert "200 now, 200 at most" in drawn
    assert drawn.count("<rect") == 1
    assert rate([*rows[:-1], 29]) == "<1 now, <1 at most"
    assert "no rows in the last day" in sparkline([0] * DAY_PARTS)


@pytest.mark.parametrize(
    ("lost", "rest"), [(0, None), (1, ""), (12, " and 2 more")], ids=["none", "one", "many"]
)
def test_what_a_person_accepted_as_lost_stands_beside_the_time(lost: int, rest: str | None) -> None:
    """B27: a region is complete but for these spans."""
    accepted = [f"t[0]@[{n}, {n + 1})" for n in range(lost)]
    view = RegionView(standing(), complete=Completeness("flights", NOON, 2, 7, 0, False, accepted))
    about = seen()
    body = page("live.html", seen=about, view=view, verdict=verdict(about, view.standing))
    assert ("data-accepted" in body) is (lost > 0)
    shown = ", ".join(accepted[:10])
    assert rest is None or f"Complete but for {shown}{rest}, which" in body
