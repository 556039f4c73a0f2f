"""Errors of Spark: transforms, decoders and jobs fail, or are not as they must be.

Readers and writers import it in every task: it needs no Spark.
"""

from typing import Literal

from tidemark.errors import (
    IncompleteRead,
    InvalidSettings,
    JobFailed,
    Refused,
    SchemaMismatch,
    TransformFailed,
)
from tidemark.model.offsets import Span, spans_in_ranges

RowsKind = Literal["DataFrame", "pyarrow.RecordBatch"]
"""What a transform returns, by its kind."""

_NOTHING = "nothing of the batch became visible"


class CutDeadLetterNotWhole(
    Refused,
    text="of the record {span.topic_partition}@{span.start} the ledger keeps only the beginning"
    " (it has {whole_bytes} bytes, see dead_letters.max_bytes), and it can't be read again:"
    " {found}. Nothing was published. Choose others by --partition, --reason, --since and --until,"
    " or purge it",
):
    span: Span
    """Of the record alone."""
    whole_bytes: int
    found: str
    """What Kafka has in its place."""


class SparkNotStarted(
    JobFailed,
    text="Spark did not start: {cause}. Spark's log is {log}; correct the cause, then run again",
):
    cause: str
    log: str


class SparkJobFailed(
    JobFailed,
    text="the job failed: {cause}. Correct the cause, then run again; "
    + _NOTHING
    + ". Spark's log is {log}",
):
    """A job ended by what Spark, the machine or the network raised."""

    cause: str
    log: str


class JvmEnded(
    JobFailed,
    text="Spark's JVM has ended: something killed it, or the machine has no memory left; "
    + _NOTHING
    + ". A retry goes on where the ledger stands. If memory ran out, lower batch.max_records."
    " Spark's log is {log}",
):
    log: str


class SparkJobCancelled(JobFailed, text="the job was cancelled; " + _NOTHING):
    """Another thread has stopped the job."""


class TaskRaised(JobFailed, text="{kind}: {cause}"):
    """Our part of a task has raised what is no error of ours."""

    kind: str
    cause: str


class SparkArchiveRefused(
    JobFailed, text="Spark does not start from the archive {path}, so it was deleted: {cause}"
):
    path: str
    cause: str


class SparkEnvironmentMissing(InvalidSettings):
    connection: str | None
    path: str

    def __str__(self) -> str:
        return (
            f"{_named(self.connection)} has the environment {self.path}, which is not there: make"
            " it as docs/clusters.md says, under Python packages"
        )


class SparkSecretMissing(InvalidSettings):
    connection: str | None
    master: str

    def __str__(self) -> str:
        return (
            f"{_named(self.connection)} leads to {self.master} and has no password: set the"
            " cluster's spark.authenticate.secret as its password. A cluster without one needs"
            " spark.authenticate=false in Spark's settings, and whoever reaches it reads the"
            " passwords in its tasks"
        )


class TransformNotFound(
    InvalidSettings,
    text="transform {transform}: {cause}; name an importable module:function (its project,"
    " {project}, must be on PYTHONPATH)",
):
    transform: str
    cause: str
    project: str


class TransformNotImported(
    TransformFailed,
    text="transform {transform} cannot be imported: {cause}. Correct it, then run again",
):
    transform: str
    cause: str


class TransformAnnotatedTwice(
    InvalidSettings,
    text="transform {transform} is annotated with a DataFrame and with a RecordBatch: it returns"
    " what it takes, the one or the other; correct its annotations",
):
    transform: str


class TransformAnnotatedOtherwise(
    InvalidSettings,
    text="transform_kind is {declared}, and transform {transform} is annotated as {annotated}:"
    " correct the setting, or the annotations",
):
    transform: str
    declared: str
    annotated: str


class TransformRaised(TransformFailed):
    """The transform, or a function of it in a task, raises and would raise again."""

    cause: str
    with_empty: bool = False
    """It was given the empty batch that tells its columns."""

    def __str__(self) -> str:
        remedy = "Correct the transform, then run again"
        return _failed(self.cause, remedy, with_empty=self.with_empty)


class TransformRaisedForNow(JobFailed):
    """The transform lacked memory, or what it asked did not answer."""

    cause: str
    with_empty: bool = False
    """It was given the empty batch that tells its columns."""

    def __str__(self) -> str:
        remedy = (
            "A retry may help: a file or a service that it uses did not answer, or memory ran out."
            " If it is memory, lower batch.max_records"
        )
        return _failed(self.cause, remedy, with_empty=self.with_empty)


class TransformReturnedOther(InvalidSettings):
    returned: str
    wanted: RowsKind
    target: str = ""

    def __str__(self) -> str:
        where = f" for target {self.target}" if self.target else ""
        remedy = _REMEDIES.get(self.returned, "") if self.wanted == "pyarrow.RecordBatch" else ""
        return (
            f"the transform returned {self.returned}{where}; it must return a {self.wanted}{remedy}"
        )


_REMEDIES = {
    "Table": "; of a table make a batch by pyarrow.RecordBatch.from_arrays("
    "[column.combine_chunks() for column in table.columns], schema=table.schema)",
    "NoneType": "; is a return missing?",
}


class TransformReturnedOne(
    InvalidSettings,
    text="the transform returned {returned}; with several targets it must return a dict with a"
    " {wanted} for each of {targets:list}",
):
    returned: str
    wanted: RowsKind
    targets: tuple[str, ...]


class TransformReturnedOtherTargets(
    InvalidSettings,
    text="the transform returned rows for {_returned}; the pipeline names the targets"
    " {targets:list}. Return a {wanted} for each, an empty one where there is nothing",
):
    returned: tuple[str, ...]
    wanted: RowsKind
    targets: tuple[str, ...]

    @property
    def _returned(self) -> str:
        return ", ".join(self.returned) or "no target"


class TransformColumnsVary(
    SchemaMismatch,
    text="{what}{_target}: the transform returned {found:list}, at the start {at_start:list}; its"
    " columns must not depend on the data",
):
    what: str
    """The batch that was drained, or the preview."""
    target: str
    found: tuple[str, ...]
    """Each column with its type: `n int64 not null`."""
    at_start: tuple[str, ...]

    @property
    def _target(self) -> str:
        return f", target {self.target}" if self.target else ""


class TransformRowsVary(
    InvalidSettings,
    text="the transform uses non-deterministic functions (rand, uuid and the like) in the rows of"
    " {targets:and}: Spark computes each DataFrame by itself, so what one record gets need not"
    " agree from table to table. Derive the value from the record instead, such as from topic,"
    " partition and offset; or write the transform as a function of pyarrow.RecordBatch"
    " (docs/targets.md)",
):
    targets: tuple[str, ...]


class TransformCutsRows(
    IncompleteRead,
    text="the transform cuts its rows: {cuts:list}. A batch's offsets pass all of its records, so"
    " those rows would be lost. Remove it from the transform; batch.max_records limits a batch,"
    " where() picks rows",
):
    cuts: tuple[str, ...]
    """What does it, as DataFrames call it: limit, offset, tail."""


class TransformLeftSource(
    IncompleteRead,
    text="the rows that the transform returns do not come from the rows that it was given: rdd,"
    " checkpoint, collect and take break the connection, so it is not known whether all records"
    " were read. Use DataFrame functions or mapInArrow instead",
):
    """The rows that a transform returns do not come from those that it was given."""


class RowsNotTransformed(
    IncompleteRead,
    text="{what}: the transform was given {given} rows of {_ranges}, and {read} were read; "
    + _NOTHING
    + ". No transform can cause this: it is a defect of Tidemark, report it",
):
    what: str
    spans: tuple[Span, ...]
    given: int
    read: int

    @property
    def _ranges(self) -> str:
        return spans_in_ranges(self.spans)


class OwnDecoderNotMade(
    InvalidSettings,
    text="decoder {decoder} can't be made: {cause}. Name an importable module:Class whose folder"
    " is on PYTHONPATH (that of transforms is), which takes the declared columns and"
    " decode.options, and has a schema",
):
    decoder: str
    cause: str


class OwnDecoderColumnsUnfit(InvalidSettings, text="decoder {decoder}: {fault}"):
    decoder: str
    fault: str


class OwnDecoderWrong(
    JobFailed, text="the decoder {decoder} {fault}. Correct it, then run again; " + _NOTHING
):
    """A decoder of the user's own raises, or its answer is not to be believed."""

    decoder: str
    fault: str


def _failed(cause: str, remedy: str, *, with_empty: bool) -> str:
    where = " with an empty batch, which shows its columns" if with_empty else ""
    return f"the transform failed{where}: {cause}. {remedy}; {_NOTHING}"


def _named(connection: str | None) -> str:
    return "Spark" if connection is None else f"Spark connection {connection!r}"
