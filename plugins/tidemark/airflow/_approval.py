"""A reset that another person approves.

    look (a dry run) -> approve (Airflow's own approval, with that report) -> reset (the approved)

The text of the approval is kept by Airflow, and a reset from any other state of the region, or to
another checkpoint, is refused. So what was approved is what is done, or nothing is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from tidemark.airflow import results
from tidemark.airflow.compat import AirflowSkipException
from tidemark.airflow.errors import ResetNotApproved
from tidemark.airflow.results import as_airflow_failure
from tidemark.airflow.step import PipelineOperator
from tidemark.airflow.tasks import look_at_reset, reset_by_hand
from tidemark.protocol.reset import Approved
from tidemark.settings.pipeline import Pipeline

LOOK, APPROVE = "look", "approve"

BODY = """
{% set seen = ti.xcom_pull(task_ids="LOOK") -%}
{{ seen["summary"] }}

- Region: REGION
- From: batch {{ seen["head_seq"] }} of epoch {{ seen["epoch"] }}
- To: batch {{ seen["to_seq"] or "0, the initial state" }}
{% for lost in (seen["removed"] or {}).get("lost") or [] -%}
- Lost: {{ lost }}
{% endfor -%}
- Asked for by: {{ dag_run.triggering_user_name or "nobody that Airflow knows" }}
- Why: {{ params["why"] or "no reason was given" }}

The log of the task LOOK has the whole report. If the region has moved on by the time of your
approval, nothing is changed.
""".replace("LOOK", LOOK)


class ResetLook(PipelineOperator):
    """Say what the reset would change; it changes nothing."""

    def execute(self, context: Context) -> results.Result:
        """Return the report."""
        return look_at_reset(self.pipeline, context)


class ResetApproval(ApprovalOperator):  # type: ignore[misc]
    """Wait until a person approves the reset, or rejects it."""

    def execute(self, context: Context) -> Any:
        """Ask.

        Raises:
            AirflowSkipException: a dry run was asked for, so there is nothing to approve.
        """
        if not context["params"]["apply"]:
            raise AirflowSkipException("Apply is off: this was a dry run")
        return super().execute(context)


class ApprovedReset(PipelineOperator):
    """Carry out the reset that was approved."""

    def execute(self, context: Context) -> results.Result:
        """Return the report.

        Raises:
            AirflowFailException: nobody approved it, or the region has moved on since.
        """
        region = Pipeline.load(self.pipeline).region
        with as_airflow_failure():
            approval = Approval.of(context, region)
        return reset_by_hand(self.pipeline, context, approval.approved, by=approval.by)


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person approved, and who it was."""

    approved: Approved
    by: str

    @classmethod
    def of(cls, context: Context, region: str) -> "Approval":
        """What both tasks before have told; a task that was only marked has told nothing.

        Raises:
            Refused: there is no approval.
        """
        ti = context["ti"]
        seen, answer = ti.xcom_pull(task_ids=LOOK), ti.xcom_pull(task_ids=APPROVE)
        try:
            if answer["chosen_options"] != [ApprovalOperator.APPROVE]:
                raise ResetNotApproved(region=region)
            user = answer["responded_by_user"]
            approved = Approved(*(int(seen[name]) for name in ("epoch", "head_seq", "to_seq")))
            return cls(approved, str(user["name"] or user["id"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ResetNotApproved(region=region) from error


def wire_approved_reset(
    pipeline: Pipeline,
    path: str,
    approvers: Sequence[str],
    approval_timeout: timedelta,
    of_look: dict[str, Any],
    of_reset: dict[str, Any],
) -> None:
    """The three tasks, in the DAG in whose `with` this is called."""
    asked = ResetApproval(
        task_id=APPROVE,
        subject=f"Reset of region {pipeline.region}",
        body=BODY.replace("REGION", pipeline.region),
        assigned_users=[{"id": one, "name": one} for one in approvers],
        response_timeout=approval_timeout,
        retries=0,
        doc_md=ResetApproval.__doc__,
    )
    look = ResetLook(task_id=LOOK, pipeline=path, **of_look)
    look >> asked >> ApprovedReset(task_id="reset", pipeline=path, **of_reset)
