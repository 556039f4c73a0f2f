"""What the command line can meet: options that do not fit together, and what is not there."""

from collections.abc import Mapping
from pathlib import Path

from tidemark.errors import InvalidSettings, Refused
from tidemark.settings.fault_texts import did_you_mean

START = "`make up` (or `tidemark local up`) starts it"

BY_HAND = (
    "Declare the fields by hand (docs/configuration.md), read the values as bytes with --raw, or"
    " write a decoder (docs/formats-own.md)"
)


class OptionsClash(InvalidSettings):
    """Two options exclude each other."""

    options: tuple[str, str]
    order: str = ""
    """In which to give them, where both make sense."""

    def __str__(self) -> str:
        order = f"; {self.order}" if self.order else ""
        return f"{' and '.join(self.options)}: one at a time{order}"


class OptionsWithout(InvalidSettings):
    """Options were given that mean something only beside another one."""

    options: tuple[str, ...]
    needed: str

    def __str__(self) -> str:
        return f"{' and '.join(self.options)}: only with {self.needed}"


class NothingToReplay(InvalidSettings):
    """Neither dead letters nor a batch was named, or both were."""

    def __str__(self) -> str:
        return "say what to replay, one of the two: --dead-letters, or --batch SEQ"


class BatchIsReplayedWhole(InvalidSettings):
    """Options that choose dead letters were given for the replay of a batch."""

    def __str__(self) -> str:
        return (
            "--batch replays the whole batch: remove --reason, --since, --until, --partition and"
            " --limit, which select dead letters"
        )


class WatchHasNoOutput(InvalidSettings):
    """A view was asked for together with what is printed once."""

    def __str__(self) -> str:
        return "--watch shows a view: leave out --count and -o json"


class PurgeWithoutAge(InvalidSettings):
    """The age of the dead letters to purge is missing, or can't be read."""

    given: str | None

    def __str__(self) -> str:
        if self.given is None:
            return "--purge: add --older-than with an age, such as 30d or 12h"
        return f"--older-than {self.given!r} is not an age; write it like 30d or 12h"


class TimeUnreadable(InvalidSettings):
    """What an option has is no time."""

    option: str
    given: str

    def __str__(self) -> str:
        return f"{self.option} {self.given!r} is not a time; write it like 2026-01-31T12:00:00Z"


class PartitionUnreadable(InvalidSettings):
    """What --partition has is no partition."""

    given: str

    def __str__(self) -> str:
        return f"{self.given!r} is not a partition; write it like 'flights[3]'"


class ReasonUnknown(InvalidSettings):
    """No dead letter of the region has this reason, and no decoder gives it."""

    region: str
    reason: str
    found: tuple[str, ...]
    """The reasons of the region's dead letters."""
    possible: tuple[str, ...]
    """Those that decoders and the target give."""

    def __str__(self) -> str:
        close = did_you_mean(self.reason, [*self.found, *self.possible])
        return (
            f"--reason {self.reason}: no dead letter of region {self.region} has it{close or ';'}"
            f" there are {', '.join(self.found) or 'none'}"
        )


class AddressUnreadable(InvalidSettings):
    """What --serve has is no address."""

    address: str

    def __str__(self) -> str:
        return f"--serve {self.address}: give host and port, as in 127.0.0.1:9464"


class AddressNotServed(InvalidSettings):
    """Nothing can be served at an address."""

    address: str
    cause: str

    def __str__(self) -> str:
        return f"--serve {self.address}: {self.cause}"


def _folder(folder: Path) -> str:
    return str(folder) if folder.exists() else f"{folder} (there is no such folder here)"


class RegionWithoutFile(InvalidSettings):
    """No pipeline file of a folder has the region."""

    region: str
    folder: Path
    known: tuple[str, ...]
    """The regions that have one."""
    unreadable: tuple[str, ...]
    """Files of the folder that are no pipelines."""

    def __str__(self) -> str:
        close = did_you_mean(self.region, self.known) or ";"
        text = f"region {self.region!r} has no pipeline file in {_folder(self.folder)}{close}"
        text += f" known: {', '.join(self.known) or 'none'}."
        if self.unreadable:
            files = ", ".join(self.unreadable)
            text += f" Could not read {files}: `tidemark check FILE` says why."
        return f"{text} Name another folder with --pipelines, or the file itself"


class FolderWithoutPipeline(InvalidSettings):
    """A folder has no pipeline file."""

    folder: Path
    faults: tuple[str, ...]
    """Of the files that may be meant for one."""

    def __str__(self) -> str:
        told = "".join(f"; not a pipeline: {fault}" for fault in self.faults)
        place = _folder(self.folder)
        return f"no pipeline file in {place}: name another folder with --pipelines{told}"


class ConnectionNowhere(InvalidSettings):
    """A connection is neither in the environment nor of a local stack."""

    connection: str
    cause: str
    file: Path
    """Of the local stack."""
    above: Path | None
    """The folder from which that file was looked for upwards; None: it was found."""
    known: tuple[str, ...]
    """The ids of the connections that are somewhere."""

    def __str__(self) -> str:
        close = did_you_mean(self.connection, self.known)
        if self.above:
            here = f"no local stack: no {self.file} here or above {self.above}"
            return f"{self.cause}{close}; {here}: {START}"
        return f"{self.cause}{close}; known here: {', '.join(self.known)}"


class NameOfAnotherFile(Refused):
    """A region's new name is that of another pipeline file, with another group."""

    file: Path
    region: str
    group: str

    def __str__(self) -> str:
        return (
            f"{self.file} is the pipeline file of region {self.region}, with group {self.group}:"
            " choose another name"
        )


class NoOffsetsAt(Refused):
    """The offsets of a checkpoint were asked for that the region does not have."""

    region: str
    seq: int

    def __str__(self) -> str:
        return (
            f"region {self.region} has no checkpoint {self.seq} (`tidemark checkpoints` lists them)"
        )


class OffsetsNotReadable(Refused):
    """The offsets of a checkpoint were asked for that no rewind goes back to."""

    region: str
    seq: int
    cause: str
    """Why a rewind there is refused."""

    def __str__(self) -> str:
        return (
            f"region {self.region}: the offsets of checkpoint {self.seq} are not exported: the"
            f" records after it can't be read again as they were. {self.cause}"
        )


class TransformKindUnknown(InvalidSettings):
    """There is no such kind of transform to write."""

    given: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"--transform: must be {' or '.join(self.known)}, got {self.given!r}"


class KeyNoColumn(InvalidSettings):
    """A key that is to tell rows apart is none of their columns."""

    missing: tuple[str, ...]
    columns: tuple[str, ...]
    """That the rows have."""
    why: Mapping[str, str]
    """Of those that the records have: why they are left out."""

    def __str__(self) -> str:
        named = (
            f"{name} (left out: {self.why[name]})" if name in self.why else name
            for name in self.missing
        )
        return (
            f"--upsert: the rows have no column {', '.join(named)}; they have"
            f" {', '.join(self.columns)}. Nothing was written"
        )


class DraftRefused(InvalidSettings):
    """What was given to `tidemark init` makes no pipeline."""

    faults: Mapping[str, str]
    """By option."""

    def __str__(self) -> str:
        return "\n".join(f"{option}: {fault}" for option, fault in self.faults.items())


class RegionHasFile(InvalidSettings):
    """The region of a new pipeline is that of another file."""

    file: Path
    region: str

    def __str__(self) -> str:
        return f"{self.file} has the region {self.region}: give it another name"


class TableHasFile(InvalidSettings):
    """The table of a new pipeline is that of another file."""

    file: Path
    tables: str

    def __str__(self) -> str:
        return (
            f"{self.file} writes to {self.tables}, and a table has one region: name another"
            " with --table"
        )


class FilesExist(InvalidSettings):
    """Files to be written are there."""

    files: tuple[Path, ...]

    def __str__(self) -> str:
        return (
            f"{', '.join(map(str, self.files))}: there already, and nothing is overwritten. Give"
            " the pipeline another name, or move the file away first"
        )


class FileNotWritten(InvalidSettings):
    """A file can't be written."""

    file: str
    cause: str

    def __str__(self) -> str:
        return f"{self.file}: {self.cause}; nothing was written"


class NothingProposed(InvalidSettings):
    """The records of a topic do not tell how they are to be decoded."""

    topics: tuple[str, ...]
    cause: str

    def __str__(self) -> str:
        return f"topic {', '.join(self.topics)}: {self.cause}. Nothing was written"


class TopicToReadMissing(InvalidSettings):
    """The topic that a new pipeline is to read does not exist."""

    topic: str

    def __str__(self) -> str:
        return (
            f"--topic {self.topic}: there is no such topic. Correct the name, or make it and send"
            f" it a record (in the local stack: `tidemark local produce {self.topic} FILE`)"
        )


class NoRecordToSee(InvalidSettings):
    """A topic holds no record."""

    def __str__(self) -> str:
        return (
            "it holds no record to look at. Send some first (`tidemark local produce` sends the"
            " lines of a file), or wait for its producer"
        )


class ValuesNotRecognised(InvalidSettings):
    """No format that Tidemark proposes fits a topic's values."""

    looks: str
    """What they look like."""

    def __str__(self) -> str:
        return f"its values look like {self.looks}. {BY_HAND}"


class ValuesWithoutField(InvalidSettings):
    """A topic's values can be decoded, and tell no field."""

    looks: str
    """What they look like."""

    def __str__(self) -> str:
        return f"its values look like {self.looks} and tell no field. {BY_HAND}"


class RegistryNotNamed(InvalidSettings):
    """A schema's id stands in front of a topic's values, and no registry was named."""

    looks: str
    """What they look like."""
    schema: int | str

    def __str__(self) -> str:
        return (
            f"its values look like {self.looks} ({self.schema}). Name the connection of the"
            " schema registry: --registry tidemark_registry"
        )


class SchemaNotHad(InvalidSettings):
    """The schema of a topic's values can't be had, or can't be read."""

    schema: int | str | None = None
    """Its id, where that is known."""
    cause: str

    def __str__(self) -> str:
        if self.schema is None:
            return f"the schema of its values: {self.cause}"
        return f"schema {self.schema} of its values: {self.cause}"


class SchemaKindUnknown(InvalidSettings):
    """A topic's values have a schema of a kind that Tidemark does not read."""

    schema: int | str
    kind: str

    def __str__(self) -> str:
        return f"schema {self.schema} of its values is of the kind {self.kind}. {BY_HAND}"
