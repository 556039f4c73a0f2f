"""A check: everything that a run needs, looked at before it is needed."""

from collections.abc import Callable, Iterable, Iterator

from tidemark.check._encryption import encryption_findings
from tidemark.check._job import inferred_findings, job_findings, region_findings
from tidemark.check._kafka import kafka_findings, output_findings
from tidemark.check._logins import login_findings
from tidemark.check._postgres import postgres_findings
from tidemark.check.findings import Finding
from tidemark.runs.member import ExecutorOf
from tidemark.settings.endpoints import ConnectionOf
from tidemark.settings.pipeline import Pipeline


def findings_of(
    pipeline: Pipeline,
    connection_of: ConnectionOf,
    executor_of: ExecutorOf,
    *,
    prepare: Callable[[Pipeline], None],
    with_spark: bool,
) -> Iterator[tuple[str, Iterable[Finding]]]:
    """Each group of findings under its name; what a finding tells is asked when it is taken.

    `connection_of` raises InvalidSettings for a connection that is nowhere. `prepare` makes the
    pipeline's code importable, here and where Spark runs. What these and `executor_of` raise is
    found, if it is a TidemarkError. Without `with_spark` the output of a DataFrame transform is
    not checked. With `schema: infer` a schema to paste takes the place of what needs one.
    """
    yield "Kafka", kafka_findings(pipeline, connection_of)
    yield "the output topic", output_findings(pipeline, connection_of)
    yield "Postgres", postgres_findings(pipeline, connection_of)
    yield "the other logins", login_findings(pipeline, connection_of)
    yield "encryption", encryption_findings(pipeline, connection_of)
    if pipeline.decode.infers_any:
        yield "the records", inferred_findings(pipeline, connection_of)
        return
    yield "the region", region_findings(pipeline, connection_of)
    job = job_findings(pipeline, connection_of, executor_of, prepare=prepare, with_spark=with_spark)
    yield "the job", job
