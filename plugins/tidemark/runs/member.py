"""A drain: one member's work in a run, from outside."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from tidemark.deadline import Clock
from tidemark.kafka.description import client_id_of, static_name
from tidemark.kafka.locate import located
from tidemark.kafka.member import Member
from tidemark.model.output import Parts
from tidemark.model.state import Run
from tidemark.protocol.changes import refuse_other_settings
from tidemark.runs._drain import Drain, Drained
from tidemark.runs._member_run import MemberRun, Sending
from tidemark.runs.errors import RunNotOpen
from tidemark.runs.region import Region, region_of
from tidemark.runs.schemas import kept
from tidemark.settings.endpoints import Connections
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.output import OutputSettings
from tidemark.settings.pipeline import Pipeline
from tidemark.tracing.traced import traced_run

if TYPE_CHECKING:
    from tidemark.runs.job import Job, JobExecutor
    from tidemark.spark.specs import JobSpec


ExecutorOf = Callable[["JobSpec"], "JobExecutor"]


def drain_run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str,
    member_name: str,
    executor_of: ExecutorOf,
    slot: int = 1,
    clock: Clock = time.monotonic,
) -> Drained:
    """One member has worked until the ledger says that the run is done.

    `slot` (1..members) names it in the group where membership is static; by `clock`, in seconds, it
    waits for others.

    Raises:
        RunNotDone: the run never opened.
        Refused: the pipeline is not the one that the run was opened with.
        TidemarkError: see errors.py; the exit code says whether a retry may help.
    """
    with (
        traced_run("member", pipeline.region, run_id) as part,
        region_of(pipeline, connections) as region,
    ):
        run = region.ledger.run_of(region.name, run_id)
        if run is None:
            raise RunNotOpen(region=region.name, run_id=run_id)
        opened = _as_opened(region, run)
        number = region.ledger.register_member(region.name, run.epoch, uuid4(), member_name)
        part.tell({"tidemark.epoch": run.epoch, "tidemark.member": number})
        targets = region.ledger.target_offsets(region.name, run.epoch)
        topics = sorted({partition.topic for partition in targets})
        member = _member(region, topics, number, slot)
        member_run = MemberRun(
            region=region.name,
            epoch=run.epoch,
            number=number,
            topics=topics,
            in_flight=run.in_flight,
            ledger=region.ledger,
            broker=region.broker,
            group=region.group,
            member=member,
            is_expected=pipeline.members <= len(targets),
            no_progress_seconds=pipeline.no_progress_seconds,
            sending=_sending(opened.pipeline.sending, opened.pipeline.sent_parts),
            start_job=lambda: job_of(opened, number, executor_of),
            transform=opened.pipeline.transform,
            writer=region.writer,
        )
        drain = Drain(member_run, clock)
        with located(region.kafka), nullcontext() if drain.is_done() else member:
            return drain.work()


def _as_opened(region: Region, run: Run) -> Region:
    """The region, with the columns that the run was opened with.

    Of a run whose epoch has passed nothing is known any more: its member is fenced.
    """
    state = region.state()
    if state.epoch != run.epoch:
        return region
    pipeline = kept(region.pipeline, state)
    refuse_other_settings(state, fingerprint(pipeline), pipeline.tables, pipeline.group)
    return replace(region, pipeline=pipeline)


def _sending(output: OutputSettings | None, parts: Parts) -> Sending | None:
    return Sending(parts, output.max_unsent, output.max_seconds) if output else None


def job_of(region: Region, member: int, executor_of: ExecutorOf) -> "Job":
    """A member's job, started.

    Raises:
        Refused, InvalidSettings: see `start_job`.
    """
    from tidemark.runs.job import start_job  # Arrow: a run without a backlog needs none
    from tidemark.runs.targets import writers_of

    return start_job(
        region.name,
        region.ledger,
        lambda: executor_of(region.job_spec(member)),
        lambda schemas: writers_of(region.pipeline, schemas),
    )


def _member(region: Region, topics: Sequence[str], number: int, slot: int) -> Member:
    kafka, group = region.pipeline.kafka, region.pipeline.group
    membership = kafka.membership(static_name(group, slot))
    return Member(
        region.kafka, group, topics, client_id_of(region.name, number), membership=membership
    )
