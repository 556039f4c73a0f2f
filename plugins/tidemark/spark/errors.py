"""What can be met in Spark: transforms, decoders and jobs that fail or are not as they must be.

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

AnswerPart = Literal["answer", "rows", "rejection"]
"""Of what a decoder returns: all of it, its rows, or one rejection."""

_NOTHING = "nothing of the batch became visible"


class CutDeadLetterNotWhole(Refused):
    """A dead letter keeps the beginning of its record, and Kafka does not give the rest."""

    span: Span
    """Of the record alone."""
    whole_bytes: int
    found: str
    """What Kafka has in its place."""

    def __str__(self) -> str:
        where = f"{self.span.topic_partition}@{self.span.start}"
        return (
            f"of the record {where} the ledger keeps only the beginning (it has"
            f" {self.whole_bytes} bytes, see dead_letters.max_bytes), and it can't be read again:"
            f" {self.found}. Nothing was published. Choose others by --partition, --reason,"
            " --since and --until, or purge it"
        )


class SparkNotStarted(JobFailed):
    """Spark did not start."""

    cause: str
    log: str
    """The file that has Spark's own words."""

    def __str__(self) -> str:
        return (
            f"Spark did not start: {self.cause}. Spark's log is {self.log}; correct the cause,"
            " then run again"
        )


class SparkJobFailed(JobFailed):
    """A job ended by what Spark, the machine or the network raised."""

    cause: str
    log: str
    """The file that has Spark's own words."""

    def __str__(self) -> str:
        return (
            f"the job failed: {self.cause}. Correct the cause, then run again; {_NOTHING}."
            f" Spark's log is {self.log}"
        )


class JvmEnded(JobFailed):
    """Spark's JVM is gone: it was killed, it ran out of memory, or it crashed."""

    log: str
    """The file that has Spark's own words."""

    def __str__(self) -> str:
        return (
            "Spark's JVM has ended: something killed it, or the machine has no memory left;"
            f" {_NOTHING}. A retry goes on where the ledger stands. Spark's log is {self.log}"
        )


class SparkJobCancelled(JobFailed):
    """Another thread has stopped the job."""

    def __str__(self) -> str:
        return f"the job was cancelled; {_NOTHING}"


class TaskRaised(JobFailed):
    """Our part of a task has raised what is no error of ours."""

    kind: str
    """The exception's class."""
    cause: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.cause}"


class SparkArchiveRefused(JobFailed):
    """Spark does not start from an archive of its classes."""

    path: str
    cause: str

    def __str__(self) -> str:
        return f"Spark does not start from the archive {self.path}, so it was deleted: {self.cause}"


class SparkEnvironmentMissing(InvalidSettings):
    """The packed environment that a connection names is not there."""

    connection: str | None
    path: str

    def __str__(self) -> str:
        return (
            f"{_named(self.connection)} has the environment {self.path}, which is not there: make"
            f" it with `tidemark pack {self.path}`"
        )


class SparkSecretMissing(InvalidSettings):
    """A standalone master asks for a secret, and the connection has none."""

    connection: str | None
    master: str

    def __str__(self) -> str:
        return (
            f"{_named(self.connection)} leads to {self.master} and has no password: set the"
            " cluster's spark.authenticate.secret as its password. A cluster without one needs"
            " spark.authenticate=false in Spark's settings, and whoever reaches it reads the"
            " passwords in its tasks"
        )


class PackageNotInstalled(InvalidSettings):
    """A package that is to be packed is not installed."""

    package: str

    def __str__(self) -> str:
        return f"package {self.package} is not installed here: there is nothing to pack"


class TransformNotFound(InvalidSettings):
    """The module or function that the pipeline names as its transform does not exist."""

    transform: str
    cause: str
    project: str

    def __str__(self) -> str:
        return (
            f"transform {self.transform}: {self.cause}; name an importable module:function"
            f" (its project, {self.project}, must be on PYTHONPATH)"
        )


class TransformNotImported(TransformFailed):
    """The module of a transform raises when it is imported."""

    transform: str
    cause: str

    def __str__(self) -> str:
        return (
            f"transform {self.transform} cannot be imported: {self.cause}. Correct it, then run"
            " again"
        )


class TransformAnnotatedTwice(InvalidSettings):
    """A transform is annotated as one of both kinds."""

    transform: str

    def __str__(self) -> str:
        return (
            f"transform {self.transform} is annotated with a DataFrame and with a RecordBatch: it"
            " returns what it takes, the one or the other; correct its annotations"
        )


class TransformAnnotatedOtherwise(InvalidSettings):
    """A transform's annotations contradict the kind that the pipeline file declares."""

    transform: str
    declared: str
    annotated: str

    def __str__(self) -> str:
        return (
            f"transform_kind is {self.declared}, and transform {self.transform} is annotated as"
            f" {self.annotated}: correct the setting, or the annotations"
        )


class TransformRaised(TransformFailed):
    """The transform, or a function of it in a task, raises and would raise again."""

    cause: str
    with_empty: bool = False
    """It was given the empty batch that tells its columns."""

    def __str__(self) -> str:
        return _failed(self.cause, with_empty=self.with_empty)


class TransformRaisedForNow(JobFailed):
    """The transform lacked memory, or what it asked did not answer."""

    cause: str
    with_empty: bool = False
    """It was given the empty batch that tells its columns."""

    def __str__(self) -> str:
        return _failed(self.cause, with_empty=self.with_empty)


class TransformReturnedOther(InvalidSettings):
    """The transform returned something else than rows."""

    returned: str
    """The class of what it returned."""
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


class TransformReturnedOne(InvalidSettings):
    """The transform returned no mapping, though there are several targets."""

    returned: str
    """The class of what it returned."""
    wanted: RowsKind
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the transform returned {self.returned}; with several targets it must return a"
            f" dict with a {self.wanted} for each of {', '.join(self.targets)}"
        )


class TransformReturnedOtherTargets(InvalidSettings):
    """The transform returned rows for other targets than the pipeline's."""

    returned: tuple[str, ...]
    wanted: RowsKind
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the transform returned rows for {', '.join(self.returned) or 'no target'}; the"
            f" pipeline names the targets {', '.join(self.targets)}. Return a {self.wanted} for"
            " each, an empty one where there is nothing"
        )


class TransformColumnsVary(SchemaMismatch):
    """The transform returned other columns than at the start."""

    what: str
    """The batch that was drained, or the preview."""
    target: str
    found: tuple[str, ...]
    """Each column with its type: `n int64 not null`."""
    at_start: tuple[str, ...]

    def __str__(self) -> str:
        of = f", target {self.target}" if self.target else ""
        return (
            f"{self.what}{of}: the transform returned {', '.join(self.found)}, at the start"
            f" {', '.join(self.at_start)}; its columns must not depend on the data"
        )


class TransformRowsVary(InvalidSettings):
    """The rows of several targets have values of non-deterministic functions."""

    targets: tuple[str, ...]

    def __str__(self) -> str:
        return (
            "the transform uses non-deterministic functions (rand, uuid and the like) in"
            f" the rows of {' and '.join(self.targets)}: Spark computes each DataFrame by itself,"
            " so what one record gets need not agree from table to table. Derive the value from the"
            " record instead, such as from topic, partition and offset; or write the transform as a"
            " function of pyarrow.RecordBatch (docs/targets.md)"
        )


class TransformCutsRows(IncompleteRead):
    """The plan of a transform leaves rows out by their number."""

    cuts: tuple[str, ...]
    """What does it, as DataFrames call it: limit, offset, tail."""

    def __str__(self) -> str:
        return (
            f"the transform cuts its rows: {', '.join(self.cuts)}. A batch's offsets pass all of"
            " its records, so those rows would be lost. Remove it from the transform;"
            " batch.max_records limits a batch, where() picks rows"
        )


class TransformLeftSource(IncompleteRead):
    """The rows that a transform returns do not come from those that it was given."""

    def __str__(self) -> str:
        return (
            "the rows that the transform returns do not come from the rows that it was given:"
            " rdd, checkpoint, collect and take break the connection, so it is not known"
            " whether all records were read. Use DataFrame functions or mapInArrow instead"
        )


class RowsNotTransformed(IncompleteRead):
    """A task's transform was given another number of rows than its reads counted."""

    what: str
    """The batch."""
    spans: tuple[Span, ...]
    given: int
    read: int

    def __str__(self) -> str:
        return (
            f"{self.what}: the transform was given {self.given} rows of"
            f" {spans_in_ranges(self.spans)}, and {self.read} were read; {_NOTHING}. No transform"
            " can cause this: it is a defect of Tidemark, report it"
        )


class OwnDecoderNotMade(InvalidSettings):
    """There is no such decoder of the user's own, or it can't be made."""

    decoder: str
    cause: str

    def __str__(self) -> str:
        return (
            f"decoder {self.decoder} can't be made: {self.cause}. Name an importable"
            " module:Class whose folder is on PYTHONPATH (that of transforms is), which takes the"
            " declared columns and decode.options, and has a schema"
        )


class OwnDecoderHasNoColumns(InvalidSettings):
    """A decoder of the user's own has no schema with columns."""

    decoder: str

    def __str__(self) -> str:
        return f"decoder {self.decoder}: its schema must be a pyarrow.Schema with columns"


class OwnDecoderNotNullable(InvalidSettings):
    """A decoder of the user's own has columns that may not be null."""

    decoder: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"decoder {self.decoder}: its columns {', '.join(self.columns)} are not nullable: every"
            " column of a decoder may be null"
        )


class OwnDecoderRaised(JobFailed):
    """A decoder of the user's own raises."""

    decoder: str
    cause: str

    def __str__(self) -> str:
        return _distrusted(self.decoder, f"raised: {self.cause}")


class OwnDecoderReturnedOther(JobFailed):
    """What a decoder of the user's own returned, or a part of it, is of another class."""

    decoder: str
    part: AnswerPart
    returned: str
    """The class."""

    def __str__(self) -> str:
        match self.part:
            case "answer":
                return _distrusted(self.decoder, f"returned {self.returned} in place of Decoded")
            case "rows":
                return _distrusted(
                    self.decoder, f"returned rows as {self.returned}, not as a RecordBatch"
                )
            case "rejection":
                return _distrusted(
                    self.decoder, f"rejected by {self.returned}, not by Rejected with an index"
                )


class OwnDecoderMiscounted(JobFailed):
    """A decoder of the user's own did not name each value once, as a row or as rejected."""

    decoder: str
    given: int
    kept: int
    rejected: int

    def __str__(self) -> str:
        return _distrusted(
            self.decoder,
            f"was given {self.given} values and named {self.kept} as rows and {self.rejected}"
            " as rejected: each must be named once, by its index",
        )


class OwnDecoderReordered(JobFailed):
    """A decoder of the user's own gave rows in another order than their values."""

    decoder: str

    def __str__(self) -> str:
        return _distrusted(self.decoder, "gave rows in another order than their values")


class OwnDecoderColumnsDiffer(JobFailed):
    """The rows of a decoder of the user's own have other columns than its schema."""

    decoder: str
    returned: str
    """The columns, as Arrow shows a schema."""
    told: str

    def __str__(self) -> str:
        return _distrusted(
            self.decoder,
            f"returned the columns\n{self.returned}\nbut its schema declares\n{self.told}",
        )


class OwnDecoderRowsMiscounted(JobFailed):
    """A decoder of the user's own returned another number of rows than it named as kept."""

    decoder: str
    rows: int
    kept: int

    def __str__(self) -> str:
        return _distrusted(
            self.decoder, f"returned {self.rows} rows and named {self.kept} values as kept"
        )


class OwnDecoderRowsInvalid(JobFailed):
    """Arrow finds the rows of a decoder of the user's own invalid."""

    decoder: str
    cause: str

    def __str__(self) -> str:
        return _distrusted(self.decoder, f"returned rows that Arrow finds invalid: {self.cause}")


class OwnDecoderIndicesOdd(JobFailed):
    """A decoder of the user's own named kept values by something else than whole numbers."""

    decoder: str

    def __str__(self) -> str:
        return _distrusted(self.decoder, "named kept values by something else than whole numbers")


class OwnDecoderReasonOdd(JobFailed):
    """A decoder of the user's own rejected a value for what is not spelled as a reason."""

    decoder: str
    reason: str
    """As Python shows it."""

    def __str__(self) -> str:
        return _distrusted(self.decoder, f"rejected for {self.reason}: a reason is like WRONG_TYPE")


def _distrusted(decoder: str, fact: str) -> str:
    return f"the decoder {decoder} {fact}. Correct it, then run again; {_NOTHING}"


def _failed(cause: str, *, with_empty: bool) -> str:
    where = " with the empty batch from which its columns are learnt" if with_empty else ""
    return f"the transform failed{where}: {cause}. Correct it, then run again; {_NOTHING}"


def _named(connection: str | None) -> str:
    return "Spark" if connection is None else f"Spark connection {connection!r}"
