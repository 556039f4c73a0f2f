"""A reset that another person approves: what is done is what was approved, or nothing is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.dags.test_wiring import run_by_airflow
from tests.support.world import World

from tidemark.errors import InvalidSettings
from tidemark.protocol.errors import ApprovalOutdated
from tidemark.protocol.reset import Approved

FILE = "dags/pipeline.yaml"


@pytest.mark.long
def test_airflow_asks_and_does_what_was_approved_or_nothing(
    region: World, environment: dict[str, str]
) -> None:
    """B11, G219: by Airflow's own API; the last answer alone removes the rows."""
    from tests.support.airflows import IS_BELOW_3_3

    hows = ["dry", "rejected", "marked", "moved", "approved"]
    if IS_BELOW_3_3:
        hows.remove("marked")  # there `dag.test` goes on to wait for an answer
    own = dict(one.to_env() for one in region.connections.values())
    own["AIRFLOW__API_AUTH__JWT_SECRET"] = "x" * 64
    file = str(Path(FILE).resolve())
    found = run_by_airflow(environment | own, "approvals.py", file, *hows)
    ends = {how: tuple(one["states"][task] for task in ("approve", "reset"))
            for how, one in found.items()}  # fmt: skip
    expected = {
        "dry": ("skipped", "skipped"),
        "rejected": ("success", "skipped"),
        "marked": ("success", "failed"),
        "moved": ("success", "failed"),
        "approved": ("success", "success"),
    }
    assert ends == {how: expected[how] for how in hows}
    assert found["approved"]["codes"] == [403, 200]
    body = found["approved"]["body"]
    assert "would remove 3 rows of" in body
    assert "From: batch 1 of epoch 2" in body
    assert "Why: a drill" in body
    assert region.rows() == []
    who = region.sql("SELECT kind, requested_by, why FROM tidemark.resets")
    assert who == [("rewind", "dag_test, approved by oncall", "a drill")]


@pytest.mark.parametrize("to", [0, None], ids=["rewind", "reset"])
@pytest.mark.parametrize(
    "approved",
    [Approved(0, 1, 0), Approved(1, 0, 0), Approved(1, 1, 7)],
    ids=["another epoch", "another head", "another place"],
)
def test_a_reset_from_elsewhere_than_was_approved_is_refused(
    region: World, to: int | None, approved: Approved
) -> None:
    """G219."""
    with pytest.raises(ApprovalOutdated):
        region.reset(to=to, approved=approved)
    assert region.sql("SELECT epoch, head_seq FROM tidemark.regions") == [(1, 1)]
    assert len(region.rows()) == 3


APPROVED = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "oncall"}}
REPORT = {"epoch": 1, "head_seq": 1, "to_seq": 0}


@pytest.mark.parametrize(
    ("report", "answer"),
    [
        (REPORT, None),
        (REPORT, APPROVED | {"chosen_options": ["Reject"]}),
        (REPORT, {"chosen_options": ["Approve"]}),
        (REPORT, APPROVED | {"responded_by_user": None}),
        (None, APPROVED),
        (REPORT | {"to_seq": None}, APPROVED),
    ],
    ids=["marked", "rejected", "by none", "by nobody", "of nothing", "to nowhere"],
)
def test_what_is_no_approval_resets_nothing(
    region: World, report: dict[str, Any] | None, answer: dict[str, Any] | None
) -> None:
    """B11, G219: whatever the tasks before have told."""
    from tidemark.airflow._approval import ApprovedReset
    from tidemark.airflow.compat import AirflowFailException

    told = {"look": report, "approve": answer}
    ti = SimpleNamespace(xcom_pull=lambda task_ids: told[task_ids])
    reset = ApprovedReset(task_id="reset", pipeline=FILE)
    with pytest.raises(AirflowFailException):
        reset.execute({"ti": ti, "params": {"apply": True, "to": "initial", "why": ""}})
    assert len(region.rows()) == 3


@pytest.mark.parametrize(("to", "left"), [(0, 0), (None, 3)])
def test_the_approved_reset_is_carried_out(region: World, to: int | None, left: int) -> None:
    region.reset(to=to, approved=Approved(1, 1, 1 if to is None else to))
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(2,)]
    assert len(region.rows()) == left


def test_approvers_of_no_approval_are_an_import_error(region: World) -> None:
    from tidemark.airflow import reset_dag

    with pytest.raises(InvalidSettings):
        reset_dag(FILE, approvers=["oncall"])
