"""Docs: what Airflow's pages say about a pipeline, from its file."""

from tidemark.pipeline import Pipeline


def pipeline_doc(pipeline: Pipeline) -> str:
    """Markdown for the pipeline's DAG: what goes where, the promise, what to do when it is red."""
    return f"""\
### {pipeline.region}: Kafka to `{pipeline.target.table}`, exactly once

{_facts(pipeline)}

A run drains what Kafka held when it opened, in batches; each batch appears in the target at once,
together with its offsets. **Green means done**: a run is green only if the ledger says so.

| task | what is true after it |
|---|---|
| open | the run has its epoch and target offsets; whoever held the region may write nothing |
| drain | a member has drained and published its share; a retry joins the same epoch and goes on |
| close | the ledger says that all target offsets are reached, and Kafka's group offsets equal it |
| reset | after a failure: the unpublished is discarded, Kafka's group offsets are restored |
| verdict | red whenever the run is not done |

**Red?** Read the log of the first red task: its last line says what happened and what to do. The
next run goes on from the ledger, nothing is lost or doubled. Reset by hand: DAG
`{pipeline.region}_reset`.
"""


def reset_doc(pipeline: Pipeline) -> str:
    """Markdown for the DAG that resets by hand."""
    return f"""\
### Reset of {pipeline.region}

{_facts(pipeline)}

Fences every running member, discards what is not published, and sets Kafka's group offsets to the
ledger's merged checkpoint. Published rows stay. Safe to run twice and beside a running DAG
`{pipeline.region}`, whose run ends red.

**Without `apply` it changes nothing** and says what it would change.
"""


def _facts(pipeline: Pipeline) -> str:
    bounds = pipeline.batch
    return "\n".join(
        (
            f"- topics: {', '.join(f'`{topic}`' for topic in pipeline.kafka.topics)}"
            f" by connection `{pipeline.kafka.connection}`, consumer group `{pipeline.group}`",
            f"- target: `{pipeline.target.table}` ({pipeline.target.mode})"
            f" by connection `{pipeline.target.connection}`",
            f"- decode: {pipeline.decode.format}; transform: `{pipeline.transform or 'none'}`",
            f"- batch: at most {bounds.max_records:,} records; members: {pipeline.members}",
        )
    )
