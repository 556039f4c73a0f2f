"""What a person sees and fills in Airflow: the text of each DAG, and its form."""

from airflow.sdk import Context, Param

from tidemark.model.overrides import (
    ACCEPT_CHANGES,
    ACCEPT_CORRUPT,
    ACCEPT_DATA_LOSS,
    ACCEPT_RESEND,
    TAKE_OVER,
)
from tidemark.settings.pipeline import Pipeline


def pipeline_doc(pipeline: Pipeline) -> str:
    """Markdown for the pipeline's DAG: what goes where, the promise, what to do when it is red."""
    return f"""\
### {pipeline.region}: Kafka to `{pipeline.into}`, exactly once

{_facts(pipeline)}

A run drains the records that Kafka held when it opened, in batches. The rows of a batch appear in
the target all at once, together with its offsets. **Green means done**: a run is green only if the
ledger says so.

| task | what is true after it |
|---|---|
| open | the run has its epoch and target offsets; processes of earlier runs can no longer write |
| drain | the ledger says that the run is done; a retry joins the same epoch and goes on |
| close | the ledger says that all target offsets are reached, and Kafka's group offsets equal it |
| reset | after a failure: the unpublished batch is discarded, Kafka's group offsets are restored |
| verdict | red whenever the run is not done |
| end | the same, whatever tasks come behind; a run that a person ended is reset |

{_members(pipeline)}
**Red?** Read the log of the first red task: its last line says what happened and what to do. The
next run goes on from the ledger; nothing is lost or doubled. `DATA_LOST`, `CORRUPT_RECORD` and
`REFUSED` say what a person must decide; what the form's overrides accept is kept in the ledger as
remarks. A cleared run opens again without its overrides.

To reset or rewind by hand: `tidemark reset {pipeline.region}`, or the DAG that `reset_dag` made of
this pipeline, if there is one. To see who is at work: `tidemark group {pipeline.region}`.
"""


def reset_doc(pipeline: Pipeline) -> str:
    """Markdown for the DAG that resets by hand."""
    return f"""\
### Reset of {pipeline.region}

{_facts(pipeline)}

Fences every running member, discards what is not published, and sets Kafka's group offsets to the
ledger's merged checkpoint. Safe to run twice and beside a run of the pipeline, which ends red.

| to | published rows |
|---|---|
| `last` | they stay: for a driver that hangs, or after too many resets in a row |
| the seq of a checkpoint | those of later checkpoints **are removed**, with their dead letters |
| a time | the same, for the newest checkpoint that holds no record of that time or later |
| `initial` | all of them **are removed** |

The next run reads again what was removed. If Kafka no longer holds it, the reset is refused and
changes nothing. To correct the cause before the next run, pause the pipeline's DAG.

**Without `apply` it changes nothing** and says what it would change: batches, rows, dead letters,
each partition from where to where, and the margin to Kafka's log start. The log of `reset` says
`DRY RUN` or `DONE` first. A rewind sends an Asset event to DAGs that are scheduled on the target.
Each run resets once: to reset again, trigger a new run; clearing an old one is refused.
"""


def replay_doc(pipeline: Pipeline) -> str:
    """Markdown for the DAG that replays by hand."""
    return f"""\
### Replay of {pipeline.region}

{_facts(pipeline)}

Each dead letter that can be decoded now becomes rows, once; the others stay.

It takes an epoch of its own: the region must be at rest, so pause the pipeline's DAG or wait for
its run. After a change of `decode` or of the transform first start a run with *Accept changes*.

**Without `apply` it changes nothing** and says what it would change, and whether it would be
refused. The log of `replay` says `DRY RUN` or `DONE`. A rewind to before it takes it back. A run
that is cleared replays again; each dead letter still becomes rows only once. DAGs that are
scheduled on the target learn of these rows from the pipeline's next run.
"""


def _members(pipeline: Pipeline) -> str:
    if pipeline.members == 1:
        return ""
    return f"""\
**Members.** {pipeline.members} drain tasks share the partitions. Each takes a slot of the executor
and a Spark driver of its own. With fewer slots than members the run still ends well: those that run
drain everything, and one that starts late finds the run done and ends green.
"""


def _facts(pipeline: Pipeline) -> str:
    return "\n".join(
        (
            f"- topics: {', '.join(f'`{topic}`' for topic in pipeline.kafka.topics)}"
            f" by connection `{pipeline.kafka.connection}`, consumer group `{pipeline.group}`",
            f"- target: {_targets(pipeline)} by connection `{pipeline.warehouse}`",
            f"- decode: {pipeline.decode.format}; transform: `{pipeline.transform or 'none'}`",
            f"- batch: {pipeline.bounds().told}; members: {pipeline.members}",
        )
    )


def _targets(pipeline: Pipeline) -> str:
    return ", ".join(f"`{one.table}` ({one.mode})" for one in pipeline.all_targets.values())


BOUNDS = ("max_records", "max_bytes", "max_batches", "max_seconds")
OVERRIDES = (ACCEPT_DATA_LOSS, ACCEPT_CHANGES, ACCEPT_CORRUPT, TAKE_OVER)
REWIND_OVERRIDES = (ACCEPT_DATA_LOSS, ACCEPT_CHANGES, ACCEPT_RESEND)

PLACE = r"^(last|initial|[0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,+Zz-]+)?)$"
"""The shape of a place to reset to; whether there is such a time or checkpoint, the task says."""

MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,+Zz-]+)?$"
TIME = "such as 2026-01-31T12:00:00Z (UTC without a zone)."
CHOICE = "Which dead letters"

ONCE = "It holds for this run only: a run that is cleared does not get it again."


def run_params() -> dict[str, Param]:
    """The form of a run: its bounds, each empty by default, which means as the pipeline file says.

    Overrides are off and hold for that run alone. A DAG of your own that holds the pipeline's task
    group shows the form with `params=run_params()`.
    """
    return {
        "max_records": _limit(
            "Records per batch",
            "Offsets in one batch at most, shared fairly; batch.seconds may leave it fewer.",
            10**8,
        ),
        "max_bytes": _limit(
            "Bytes per batch",
            "Bytes of values in one batch at most, estimated from earlier batches.",
            10**12,
        ),
        "max_batches": _limit("Batches", "Stop after so many batches.", 10**6),
        "max_seconds": _limit(
            "Seconds",
            "Plan no further batch after so many seconds; a run with a backlog publishes at"
            " least one.",
            7 * 86_400,
        ),
        ACCEPT_DATA_LOSS: _override(
            "Accept data loss",
            "Accepts that records are gone for good: where Kafka lost records that the ledger"
            " needs (DATA_LOST named them), the run goes on at the next offset that Kafka has."
            " What was skipped is never read. Each such partition is kept as a remark.",
        ),
        ACCEPT_CHANGES: _override(
            "Accept changes",
            "Accepts that topics, decode, transform, target mode or the target table itself differ"
            " from those of the checkpoint (REFUSED named them): new rows are made the new way, old"
            " rows stay as they are. Each change is kept as a remark.",
        ),
        ACCEPT_CORRUPT: Param(
            None,
            type=["null", "string"],
            maxLength=2000,
            title="Accept corrupt records",
            description="Accepts that records are left out which Kafka can't read: type their"
            " offsets as CORRUPT_RECORD named them, topic[0]@[10, 20). Records before and after"
            " them are read. Write several ranges one after the other. Each is kept as a remark."
            f" {ONCE}",
            section="Overrides",
        ),
        TAKE_OVER: _override(
            "Take over",
            "Accepts that another run of the region, which is at work, is fenced and ends red."
            " Without it this run waits for that one.",
        ),
    }


def reset_params() -> dict[str, Param]:
    """The form of a reset: a dry run to the last checkpoint unless told otherwise."""
    return {
        "to": Param(
            "last",
            type="string",
            pattern=PLACE,
            title="To",
            description="last: keep everything that is published. The others are a rewind, which"
            " REMOVES the rows and dead letters published after that point: initial, the seq of a"
            " checkpoint, or a time such as 2026-01-31T12:00:00Z (UTC without a zone).",
            section="Reset",
        ),
        **_order("Reset"),
        ACCEPT_DATA_LOSS: _override(
            "Accept data loss",
            "For a rewind: also removes rows whose records Kafka no longer has, or nobody reads, so"
            " they do not come again (REFUSED named them: compacted, due for deletion, or of topics"
            " that the pipeline has left).",
        ),
        ACCEPT_CHANGES: _override(
            "Accept changes",
            "For a rewind: removes the rows that are there, even if the ledger published another"
            " number (REFUSED named both): somebody else deleted or inserted rows.",
        ),
        ACCEPT_RESEND: _override(
            "Accept sending again",
            "For a rewind of a pipeline with an output topic: what was sent stays there, and what"
            " is read again is sent again under new seqs (REFUSED named the topic).",
        ),
    }


def replay_params() -> dict[str, Param]:
    """The form of a replay: a dry run of all dead letters unless told otherwise."""
    return {
        **_order("Replay"),
        "reasons": _text("Reasons", "OUT_OF_RANGE, WRONG_TYPE. Empty: all.", 1000, CHOICE),
        "since": _text("Since", f"Those published then or later, {TIME}", 40, CHOICE, MOMENT),
        "until": _text("Until", f"Those published before, {TIME}", 40, CHOICE, MOMENT),
        "partition": _text("Partition", "Those of one partition: flights[3].", 300, CHOICE),
        "limit": _number(
            "Limit", "At most so many. Empty: batch.max_records of the file.", 10**9, CHOICE
        ),
    }


def who(context: Context) -> str:
    """Who filled the form; of a run that a schedule or an event began, the DAG, whose file says."""
    run = context.get("dag_run")
    return (run and run.triggering_user_name) or f"DAG {context['ti'].dag_id}"


def _order(section: str) -> dict[str, Param]:
    """Whether what the form says is done, and why: a dry run unless told otherwise."""
    return {
        "apply": Param(
            False,
            type="boolean",
            title="Apply",
            description="Off: show what would change, and change nothing.",
            section=section,
        ),
        "why": _text("Why", "Kept in the ledger, with who and when.", 1000, section),
    }


def _number(title: str, description: str, most: int, section: str) -> Param:
    return Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=most,
        title=title,
        description=description,
        section=section,
    )


def _text(
    title: str, description: str, most: int, section: str, pattern: str | None = None
) -> Param:
    shape = {"pattern": pattern} if pattern else {}
    return Param(
        None,  # Airflow's form takes an empty text for a missing one
        type=["null", "string"],
        maxLength=most,
        title=title,
        description=description,
        section=section,
        **shape,
    )


def _limit(title: str, description: str, most: int) -> Param:
    empty = "Empty: as the pipeline file says."
    return _number(title, f"{description} {empty}", most, "Bounds of this run")


def _override(title: str, description: str) -> Param:
    return Param(
        False, type="boolean", title=title, description=f"{description} {ONCE}", section="Overrides"
    )
