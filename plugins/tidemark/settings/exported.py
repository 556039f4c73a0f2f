"""A checkpoint as `tidemark offsets -o json` prints it, and as another region begins with it."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.plan import MAX_BIGINT
from tidemark.settings.errors import Fault, FileUnreadable, NotExportedOffsets
from tidemark.settings.sections import Strict

Whole = Annotated[int, Field(ge=0, le=MAX_BIGINT, strict=True)]


class ExportedOffset(Strict):
    """Where one partition goes on: its next offset, and the topic that counts it."""

    topic: str
    topic_id: str | None
    partition: Whole
    offset: Whole

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class ExportedOffsets(Strict):
    """A region's merged checkpoint, with what tells which records its offsets mean."""

    region: str
    group: str
    cluster_id: str
    epoch: Whole
    seq: Whole
    offsets: Annotated[tuple[ExportedOffset, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _once(self) -> "ExportedOffsets":
        [(place, times)] = Counter(one.place for one in self.offsets).most_common(1)
        if times > 1:
            raise ValueError(f"{place} is there {times} times")
        return self

    @property
    def by_partition(self) -> Offsets:
        """The next offset of each partition."""
        return {one.place: one.offset for one in self.offsets}

    @property
    def topic_ids(self) -> set[tuple[str, str]]:
        """Topics with their ids, where the ledger knew these."""
        return {(one.topic, one.topic_id) for one in self.offsets if one.topic_id}


def read_exported(file: Path) -> ExportedOffsets:
    """What a file of `tidemark offsets -o json` says.

    Raises:
        InvalidSettings: it can't be read, or says something else.
    """
    try:
        return ExportedOffsets.model_validate_json(file.read_bytes())
    except OSError as error:
        raise FileUnreadable(file=file, cause=str(error.strerror)) from error
    except ValidationError as error:
        faults = tuple(
            Fault(key=".".join(map(str, one["loc"])), problem=one["msg"])
            for one in error.errors()[:5]
        )
        raise NotExportedOffsets(file=file, faults=faults) from error
