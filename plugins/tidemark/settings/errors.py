"""Errors of settings: a pipeline file, a field or a connection can't be used."""

from pathlib import Path
from typing import TypedDict

from tidemark.errors import InvalidSettings

ALLOWED = (
    "boolean, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, "
    "timestamp, array<type>, struct<name:type,...>"
)


class Fault(TypedDict):
    """What is wrong with one value of a file."""

    key: str
    """Its place, such as kafka.topics.0; empty: the whole file."""
    problem: str


class FaultAtLine(Fault):
    """The same, of a file that a person wrote."""

    line: int


class FileUnreadable(InvalidSettings, text="{file}: {cause}"):
    file: Path
    cause: str


class FileNotYaml(InvalidSettings, text="{file}: not YAML: {cause}"):
    file: Path
    line: int | None
    """None if it has a character that YAML forbids, or a date that does not exist."""
    cause: str


class PipelineFaults(InvalidSettings):
    """A pipeline file has faults: all of them at once."""

    file: Path
    faults: tuple[FaultAtLine, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{self.file}:{one['line']}: {one['key'] or 'file'}: {one['problem']}"
            for one in self.faults
        )


class FieldsNotInferred(
    InvalidSettings,
    text="{file}: schema: infer declares no field. Paste the schema that `tidemark preview {file}`"
    " prints; a run needs fields that a person has seen",
):
    file: Path


class NotExportedOffsets(InvalidSettings):
    file: Path
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        told = "; ".join(f"{one['key'] or 'file'}: {one['problem']}" for one in self.faults)
        return f"{self.file} is not what `tidemark offsets REGION -o json` prints: {told}"


class DagOfOtherVersion(
    InvalidSettings,
    text="the DAG was parsed by another version of Tidemark: let the dag-processor run with the"
    " api-server's version",
):
    """What a DAG carries of its pipeline was written by another version of Tidemark."""


class CarriedTooLarge(
    InvalidSettings,
    text="the DAG holds {size:,} characters of its pipeline, and the page reads at most {limit:,}:"
    " name the topics of kafka.topics by a pattern",
):
    size: int
    limit: int


class ConnectionNotKnown(
    InvalidSettings,
    text="connection {conn_id!r} is not known: set {variable} to a connection; one of Postgres is"
    ' such as postgres://user:password@host:5432/database, one of Kafka such as {{"conn_type":'
    ' "kafka", "extra": {{"bootstrap.servers": "host:9092"}}}}',
):
    conn_id: str
    variable: str


class ConnectionUnreadable(
    InvalidSettings,
    text="{variable} is neither connection JSON nor a URI; write it like"
    " postgres://user:password@host:5432/database",
):
    """The text of a connection can't be read; it holds secrets, so only its variable is named."""

    conn_id: str
    variable: str


class ConnectionKeysRefused(
    InvalidSettings,
    text="the extra of connection {conn_id!r} has keys that Tidemark does not take: {keys:list}."
    " Remove them; it may hold {taken}",
):
    """Some keys would run code or send files, others have no effect."""

    conn_id: str
    keys: tuple[str, ...]
    taken: str


class IamUnreadable(
    InvalidSettings,
    text="connection {conn_id!r}: iam in its extra is neither true nor false; write one of them, or"
    " remove it",
):
    conn_id: str


class ConnectionIncomplete(
    InvalidSettings, text="connection {conn_id!r} has no {missing}: {remedy}"
):
    conn_id: str
    missing: str
    remedy: str


class NoFieldDeclared(InvalidSettings, text="the schema declares no field; declare at least one"):
    """A schema declares no field."""


class FieldNameUnfit(InvalidSettings, text="field {field!r} {fault}"):
    field: str
    fault: str


class FieldsOfOneName(InvalidSettings):
    names: tuple[str, str]

    def __str__(self) -> str:
        one, other = self.names
        return (
            f"fields {one!r} and {other!r} have one name: Spark ignores case; leave one out, or"
            " rename it in a decoder of your own"
        )


class ColumnAddedTwice(
    InvalidSettings,
    text="a field has the name of a column that envelope, source or key adds: {columns:list}."
    " Give the field another name",
):
    columns: tuple[str, ...]


class RegisteredColumnsUnfit(
    InvalidSettings, text="schema: registry in {sections:list}: {problem}"
):
    """The columns of a registry's schema do not fit the rest of the pipeline file."""

    sections: tuple[str, ...]
    problem: InvalidSettings


class FormatNotRegistered(
    InvalidSettings,
    text="schema: registry is for the formats {allowed:and}: only there a registry's schema says"
    " what a record has; declare the fields",
):
    format: str
    allowed: tuple[str, ...]


class TypeUnreadable(
    InvalidSettings, text="{_of}the type {declared!r} {fact}; allowed: " + ALLOWED
):
    field: str | None
    """None where the text stands for itself."""
    declared: str
    fact: str

    @property
    def _of(self) -> str:
        return "" if self.field is None else f"field {self.field!r}: "


class NameChanged(InvalidSettings, text="{given} is {now} now"):
    given: str
    now: str
