"""Errors of the command line: options do not fit together, or name nothing that exists."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from tidemark.errors import InvalidSettings, NotComplete, Refused
from tidemark.settings.fault_texts import did_you_mean

START = "`make up` (or `tidemark local up`) starts it"

BY_HAND = (
    "Declare the fields by hand (docs/configuration.md), read the values as bytes with --raw, or"
    " write a decoder (docs/formats-own.md)"
)


class OptionsClash(InvalidSettings):
    options: tuple[str, str]
    order: str = ""
    """In which to give them, where both make sense."""

    def __str__(self) -> str:
        order = f"; {self.order}" if self.order else ""
        return f"{' and '.join(self.options)}: one at a time{order}"


class CommandGone(InvalidSettings, text="the command {command} is gone; {instead}"):
    command: str
    instead: str


class OptionsWithout(InvalidSettings, text="{options:and}: only with {needed}"):
    options: tuple[str, ...]
    needed: str


class NothingToReplay(InvalidSettings, text="say what to replay: add --dead-letters"):
    """It was not said that dead letters are to be replayed."""


class BatchesNotReplayed(
    InvalidSettings,
    text="region {region}: batch {seq} can't be replayed by itself, as an older version could:"
    " --batch was removed. Rewind to the checkpoint before it (`tidemark checkpoints {region}`"
    " lists them), then run again: `tidemark reset {region} --to CHECKPOINT --apply`. Or make the"
    " rows anew in another table, by a second region, and let a view choose between the tables",
):
    region: str
    seq: int


class WatchHasNoOutput(InvalidSettings, text="--watch shows a view: leave out --count and -o json"):
    """A view was asked for together with what is printed once."""


class PurgeWithoutAge(InvalidSettings):
    given: str | None

    def __str__(self) -> str:
        if self.given is None:
            return "--purge: add --older-than with an age, such as 30d or 12h"
        return f"--older-than {self.given!r} is not an age; write it like 30d or 12h"


class OptionUnreadable(InvalidSettings, text="{option} {given!r} is not {form}"):
    option: str
    given: str
    form: str
    """What it should be, with an example."""


class ReasonUnknown(InvalidSettings):
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


class AddressUnreadable(
    InvalidSettings, text="--serve {address}: give host and port, as in 127.0.0.1:9464"
):
    address: str


class AddressNotServed(
    InvalidSettings,
    text="--serve {address}: can't listen there: {cause}. Choose an address of this machine and a"
    " free port",
):
    """Nothing can be served at an address."""

    address: str
    cause: str


def _folder(folder: Path) -> str:
    return str(folder) if folder.exists() else f"{folder} (there is no such folder here)"


class RegionWithoutFile(InvalidSettings):
    region: str
    folder: Path
    known: tuple[str, ...]
    unreadable: tuple[str, ...]

    def __str__(self) -> str:
        close = did_you_mean(self.region, self.known) or ";"
        text = f"region {self.region!r} has no pipeline file in {_folder(self.folder)}{close}"
        text += f" known: {', '.join(self.known) or 'none'}."
        if self.unreadable:
            files = ", ".join(self.unreadable)
            text += f" Could not read {files}: `tidemark check FILE` says why."
        return f"{text} Name another folder with --pipelines, or the file itself"


class FolderWithoutPipeline(InvalidSettings):
    folder: Path
    faults: tuple[str, ...]
    """Of the files that may be meant for one."""

    def __str__(self) -> str:
        told = "".join(f"; not a pipeline: {fault}" for fault in self.faults)
        return (
            f"no pipeline file in {_folder(self.folder)}{told}. Run the command in the folder that"
            " holds dags, or name the folder of the pipeline files with --pipelines"
        )


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
            here = f"No local stack is here either: no {self.file} in {self.above} or above"
            return f"{self.cause}{close}. {here}; {START}"
        return f"{self.cause}{close}; known here: {', '.join(self.known)}"


class NoOffsetsAt(
    Refused, text="region {region} has no checkpoint {seq} (`tidemark checkpoints` lists them)"
):
    region: str
    seq: int


class OffsetsNotReadable(
    Refused,
    text="region {region}: the offsets of checkpoint {seq} are not exported: the records after it"
    " can't be read again as they were. {cause}",
):
    region: str
    seq: int
    cause: str


class TransformKindUnknown(InvalidSettings, text="--transform: must be {known:or}, got {given!r}"):
    given: str
    known: tuple[str, ...]


class KeyNoColumn(
    InvalidSettings,
    text="--upsert: the rows have no column {_missing:list}; they have {columns:list}. Nothing was"
    " written",
):
    missing: tuple[str, ...]
    columns: tuple[str, ...]
    why: Mapping[str, str]
    """Of those that the records have: why they are left out."""

    @property
    def _missing(self) -> list[str]:
        return [
            f"{name} (left out: {self.why[name]})" if name in self.why else name
            for name in self.missing
        ]


class DraftRefused(InvalidSettings):
    """What was given to `tidemark init` makes no pipeline."""

    faults: Mapping[str, str]
    """By option."""

    def __str__(self) -> str:
        return "\n".join(f"{option}: {fault}" for option, fault in self.faults.items())


class RegionHasFile(InvalidSettings, text="{file} has the region {region}: give it another name"):
    file: Path
    region: str


class TableHasFile(
    InvalidSettings,
    text="{file} writes to {tables}, and a table has one region: name another with --table",
):
    file: Path
    tables: str


class FilesExist(
    InvalidSettings,
    text="{files:list}: there already, and nothing is overwritten. Give the pipeline another name,"
    " or move the file away first",
):
    files: tuple[Path, ...]


class FileNotWritten(InvalidSettings, text="{file}: {cause}; nothing was written"):
    file: str
    cause: str


class NothingProposed(InvalidSettings, text="topic {topics:list}: {cause}. Nothing was written"):
    topics: tuple[str, ...]
    cause: str


class TopicToReadMissing(
    InvalidSettings,
    text="--topic {topic}: there is no such topic. Correct the name, or make it and send it a"
    " record (in the local stack: `tidemark local produce {topic} FILE`)",
):
    topic: str


class NoRecordToSee(
    InvalidSettings,
    text="it holds no record to look at. Send some first (`tidemark local produce` sends the lines"
    " of a file), or wait for its producer",
):
    """A topic holds no record."""


class FieldsNotTold(InvalidSettings, text="{fact}. " + BY_HAND):
    """Nothing tells the fields of a topic's values."""

    fact: str


class RegistryNotNamed(
    InvalidSettings,
    text="its values look like {looks} ({schema}). Name the connection of the schema registry:"
    " --registry tidemark_registry",
):
    looks: str
    schema: int | str


class SchemaNotHad(InvalidSettings, text="{schema} of its values: {cause}"):
    schema: str
    """With its id, where that is known."""
    cause: str


class RegionNotComplete(NotComplete, text="region {region}: {_stand}{_wanted}"):
    region: str
    wanted_at: datetime | None
    complete_at: datetime | None
    """None: the ledger can tell no time."""

    @property
    def _stand(self) -> str:
        if self.complete_at is None:
            return "no run that the ledger keeps has read all that it saw in Kafka"
        return f"it is complete at {self.complete_at.isoformat()}, and not later"

    @property
    def _wanted(self) -> str:
        return f": asked for {self.wanted_at.isoformat()}" if self.wanted_at else ""
