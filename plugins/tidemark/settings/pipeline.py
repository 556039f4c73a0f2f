"""The pipeline file: one typed YAML per pipeline. Unknown keys are refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tidemark.model.batch import ONLY
from tidemark.model.membership import MOST_MEMBERS
from tidemark.model.output import Parts, Topics
from tidemark.model.plan import Bounds
from tidemark.model.upsert import Upsert
from tidemark.settings import _yaml_file
from tidemark.settings.decode import DELETED_FIELD, DecodeSettings, refuse_unnamed
from tidemark.settings.errors import FieldsNotInferred, PipelineFaults
from tidemark.settings.format import FOLDER, FORMAT, MESSAGE, Format
from tidemark.settings.kafka import KafkaSettings, matchable
from tidemark.settings.output import (
    OUTPUT,
    DeadLetterSettings,
    OutputSettings,
    refuse_unfit_dead_letters,
    refuse_unfit_output,
)
from tidemark.settings.sections import (
    CONNECTION,
    TRANSFORM,
    BatchSettings,
    CompleteSettings,
    Logins,
    NamedTransform,
    Positive,
    SparkSettings,
    Strict,
    TransformKind,
    project_of,
)
from tidemark.settings.target import TARGET, TargetName, TargetSettings, refuse_unfit_targets

Section = TypeVar("Section", KafkaSettings, TargetSettings)

REGION = r"^[a-z][a-z0-9_]{0,39}$"

MATCHES = {
    REGION: "must be 1 to 40 small letters, digits and _, with a letter first",
    CONNECTION: "must be the id of an Airflow connection: 1 to 100 letters, digits, _ . and -",
    FORMAT: f"must be {', '.join(Format)}, or module:Class of a decoder of your own",
    MESSAGE: "must be a message's full name, such as shop.Order",
    TARGET: "must be 1 to 20 small letters, digits and _, with a letter first",
    OUTPUT: "must be the name of a topic: 1 to 249 letters, digits, ., _ and -",
    TRANSFORM: "must be module:function, such as jobs.flights:transform",
}
"""What a value is that matches a pattern, in words."""


class Pipeline(Strict):
    """One pipeline: one region, one consumer group, one target or several."""

    region: Annotated[str, Field(pattern=REGION)]
    """Name of the region: its key in the ledger and its default consumer group."""
    kafka: KafkaSettings
    """Where records come from."""
    decode: DecodeSettings
    """How records become columns."""
    target: TargetSettings | None = None
    """Where rows go; this or targets."""
    targets: dict[TargetName, TargetSettings] = Field(default_factory=dict)
    """Several targets by name, in the place of one: the transform returns rows for each."""
    output: OutputSettings | None = None
    """Where rows are sent once they are published; none: nowhere."""
    batch: BatchSettings = BatchSettings()
    """Bounds of a batch and of a run."""
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    """How many records of a batch may become dead letters, and where they are sent."""
    complete: CompleteSettings | None = None
    """Hours or days that close sends an event for, each when it is complete; none: no event."""
    transform: Annotated[str, Field(pattern=TRANSFORM)] | None = None
    """Function module:function of DataFrames or of Arrow; none: the columns stay as they are."""
    transform_kind: TransformKind | None = None
    """dataframe: pyspark DataFrame to DataFrame; arrow: pyarrow RecordBatch to RecordBatch. Set it
    if the function's annotations do not say it. Default: by the annotations, else dataframe."""
    spark: SparkSettings = SparkSettings()
    """Where the job of a batch runs."""
    executors: Logins = Logins()
    """Connections of the Spark tasks, which run the transform. They write to staging tables
    only."""
    readers: Logins = Logins()
    """Connections of whoever only reads: Airflow's pages, the doorbell, and the commands status,
    metrics, group, checkpoints, region list and region actions."""
    members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] = 1
    """Drivers that share the region's partitions, one Airflow task each."""
    no_progress_seconds: Positive = 300
    """A run fails after this many seconds without progress: nothing is staged or claimed, or Kafka
    does not answer."""
    retain_checkpoints: Positive = 1000
    """Checkpoints that a rewind can go back to; older ones are pruned from the ledger."""
    max_consecutive_resets: Positive = 5
    """Resets in a row after which no run opens until a reset by hand."""
    _file: Path = PrivateAttr(Path("pipeline.yaml"))  # of the current folder, if never loaded

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if bool(self.target) == bool(self.targets):
            raise ValueError("name the table by target, or several by targets: one of the two")
        if self.targets and self.transform is None:
            raise ValueError(
                "targets need a transform that says which row goes where; name one, or set target"
            )
        return self

    @field_validator("decode")
    @classmethod
    def _names_its_subject(cls, decode: DecodeSettings, info: ValidationInfo) -> DecodeSettings:
        if kafka := info.data.get("kafka"):
            refuse_unnamed(decode, kafka.topics)
        return decode

    @model_validator(mode="after")
    def _dead_letters_fit(self, info: ValidationInfo) -> Self:
        topics = matchable(self.kafka.topics, info)
        refuse_unfit_dead_letters(self.dead_letters.topic, topics, self.output)
        return self

    @field_validator("targets")
    @classmethod
    def _fit_each_other(
        cls, targets: dict[str, TargetSettings], info: ValidationInfo
    ) -> dict[str, TargetSettings]:
        refuse_unfit_targets(targets, info.data.get("region", ""))
        return targets

    @field_validator("output")
    @classmethod
    def _fits_topics_and_targets(
        cls, output: OutputSettings | None, info: ValidationInfo
    ) -> OutputSettings | None:
        kafka, target = info.data.get("kafka"), info.data.get("target")
        targets = info.data.get("targets") or ({ONLY: target} if target else {})
        if output and kafka and targets:
            refuse_unfit_output(output, matchable(kafka.topics, info), targets)
        return output

    @field_validator("transform_kind")
    @classmethod
    def _of_a_transform(
        cls, kind: TransformKind | None, info: ValidationInfo
    ) -> TransformKind | None:
        if kind and info.data.get("transform", "") is None:
            raise ValueError("there is no transform: name one, or remove this key")
        return kind

    @property
    def all_targets(self) -> Mapping[str, TargetSettings]:
        """Where rows go, by name: the only one has an empty name."""
        return self.targets or ({ONLY: self.target} if self.target else {})

    def upsert_of(self, target: str) -> Upsert | None:
        """How the rows of a target are upserted; None: they are appended."""
        upsert = self.all_targets[target].upsert
        return upsert and replace(upsert, of_changes=self.decode.is_event)

    @property
    def tables(self) -> dict[str, str]:
        """The targets' tables, by name."""
        return {name: one.table for name, one in self.all_targets.items()}

    @property
    def keeps_deleted(self) -> bool:
        """Whether a table of last rows would keep a row whose flattened deletion nobody reads.

        Also one that tombstones delete: a connector may be set to send none behind such a record.
        """
        is_told = DELETED_FIELD in self.decode.declared
        return not is_told and any(one.upsert for one in self.all_targets.values())

    @property
    def sent_target(self) -> str | None:
        """The name of the target whose rows are sent to the output topic; None without one."""
        if self.output is None or self.output.topic is None:
            return None
        return self.output.target or next(iter(self.all_targets))

    def bounds(self) -> Bounds:
        """Limits of a batch and of a run.

        A batch is sent in one transaction, which may take output.max_seconds: where batches are
        sent and nobody said how large they are, they are no larger than what one is meant to hold.
        """
        bounds = self.batch.bounds()
        if self.sending is None or "max_records" in self.batch.model_fields_set:
            return bounds
        return replace(bounds, max_records=min(bounds.max_records, self.sending.max_rows))

    @property
    def sending(self) -> OutputSettings | None:
        """How rows or dead letters are sent; None if neither is."""
        return self.output or (OutputSettings() if self.dead_letters.topic else None)

    @property
    def sent_to(self) -> Topics:
        """The topics of rows and of dead letters."""
        return Topics(self.output.topic if self.output else None, self.dead_letters.topic)

    @property
    def sent_parts(self) -> Parts:
        """What of a batch is sent."""
        return Parts(self.sent_target, bool(self.dead_letters.topic))

    @property
    def into(self) -> str:
        """The targets' tables in words."""
        return ", ".join(self.tables.values())

    @property
    def warehouse(self) -> str:
        """The connection of the targets' database, in which the ledger lives."""
        return next(iter(self.all_targets.values())).connection

    @property
    def group(self) -> str:
        """The consumer group id."""
        return self.kafka.group or self.region

    @property
    def registries(self) -> set[str]:
        """The connections of schema registries, for records and for the output topic."""
        registry = self.output.registry if self.output else None
        return self.decode.registries | ({registry} if registry else set())

    @property
    def connections(self) -> set[str]:
        """The ids of the connections that its job needs."""
        tasks = {self.executors.kafka, self.executors.warehouse}
        found = {self.kafka.connection, self.warehouse, *self.registries, *tasks}
        return {conn_id for conn_id in found if conn_id}

    @property
    def named_transform(self) -> NamedTransform | None:
        """The transform, as the file names it."""
        if self.transform is None:
            return None
        targets = tuple(self.all_targets)
        return NamedTransform(self.transform, self.transform_kind, targets, self.project)

    @property
    def for_readers(self) -> Self:
        """The same pipeline, as who only looks at it reaches Kafka and the ledger."""
        kafka, warehouse = self.readers.kafka, self.readers.warehouse
        targets = {name: _by(one, warehouse) for name, one in self.targets.items()}
        target = self.target and _by(self.target, warehouse)
        logins = {"executors": Logins(), "readers": Logins()}
        changed = {"kafka": _by(self.kafka, kafka), "target": target, "targets": targets} | logins
        return self.model_copy(update=changed)

    @classmethod
    def load(cls, path: str | Path, *, may_infer: bool = False) -> Self:
        """Read and check a pipeline file; `may_infer`: without its fields it is one too.

        Raises:
            InvalidSettings: every fault at once, each with file, line and key.
        """
        path = Path(path)
        root, found = _yaml_file.read(path)
        try:
            loaded = cls.model_validate(found, context={FOLDER: path.parent})
        except ValidationError as error:
            faults = _yaml_file.faults(root, error, cls, MATCHES)
            raise PipelineFaults(file=path, faults=faults) from error
        loaded._file = path
        if loaded.decode.infers_any and not may_infer:
            raise FieldsNotInferred(file=path)
        return loaded

    @property
    def path(self) -> Path:
        """Where it was read."""
        return self._file

    @property
    def project(self) -> Path:
        """Where transforms are imported from; see `project_of`."""
        return project_of(self._file)

    @property
    def needs_deletions(self) -> bool:
        """Whether a row depends on records that delete its key, and that compaction may take."""
        upserts = [one.upsert for one in self.all_targets.values() if one.upsert]
        return any(one.deleted or self.decode.has_tombstones for one in upserts)

    @property
    def has_code(self) -> bool:
        """Whether code of the project's runs: a transform, or a decoder of the user's own."""
        return self.transform is not None or self.decode.has_own


def _by(section: Section, conn_id: str | None) -> Section:
    """The section with this connection, if there is one."""
    return section.model_copy(update={"connection": conn_id}) if conn_id else section
