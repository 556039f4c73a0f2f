"""Docs: what Airflow's pages say about a pipeline, from its file."""

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

| form | what becomes of it |
|---|---|
| as it comes up | dead letters that can be decoded now become rows, each once; the others stay |
| with a batch | that checkpoint's rows **are replaced** by what its records make now |

It takes an epoch of its own: the region must be at rest, so pause the pipeline's DAG or wait for
its run. After a change of `decode` or of the transform first start a run with *Accept changes*.

**Without `apply` it changes nothing** and says what it would change, and whether it would be
refused. The log of `replay` says `DRY RUN` or `DONE`. A rewind past it takes it back. A run that is
cleared does it again: each dead letter becomes rows once all the same. The next run of the pipeline
tells DAGs that are scheduled on the target.
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
    bounds = pipeline.batch
    return "\n".join(
        (
            f"- topics: {', '.join(f'`{topic}`' for topic in pipeline.kafka.topics)}"
            f" by connection `{pipeline.kafka.connection}`, consumer group `{pipeline.group}`",
            f"- target: {_targets(pipeline)} by connection `{pipeline.warehouse}`",
            f"- decode: {pipeline.decode.format}; transform: `{pipeline.transform or 'none'}`",
            f"- batch: at most {bounds.max_records:,} records; members: {pipeline.members}",
        )
    )


def _targets(pipeline: Pipeline) -> str:
    return ", ".join(f"`{one.table}` ({one.mode})" for one in pipeline.all_targets.values())
