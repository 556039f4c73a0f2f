"""Errors of decoding beside a value that is no row: of a registry, a descriptor, a connection."""

from tidemark.errors import InvalidSettings, Refused, Unreachable

_LOOK_AT_IT = (
    "Check the registry and its connection; no record becomes a dead letter because of this"
)


class SubjectNotKnown(
    InvalidSettings,
    text="the schema registry {url} knows no subject {subject}: nobody has registered a schema"
    " under it yet, or the writers' subject has another name: set subject beside schema: registry",
):
    url: str
    subject: str


class SubjectUnreadable(InvalidSettings, text="{subject} version {version} can't be read: {cause}"):
    subject: str
    version: int
    cause: str


class DescriptorUnfit(
    InvalidSettings,
    text="decode.descriptor, message {message}: {cause}. Write the file with all that it imports:"
    " protoc --include_imports --descriptor_set_out",
):
    message: str
    cause: str


class RegistryClientRefused(InvalidSettings, text="the schema registry's connection: {cause}"):
    cause: str


class RegistryExtraNested(
    InvalidSettings,
    text="registry connection {conn_id!r}: {keys:list} in its extra must be a text or a number",
):
    conn_id: str
    keys: tuple[str, ...]


class RegistryLoginInHost(
    InvalidSettings,
    text="registry connection {conn_id!r} has a login in its host: use the fields login and"
    " password",
):
    conn_id: str


class RegistrySilent(
    Unreachable, text="the schema registry {url} did not answer: {cause}. " + _LOOK_AT_IT
):
    url: str
    cause: str


class RegistryFailed(
    Unreachable, text="the schema registry {url} answered {cause}. " + _LOOK_AT_IT
):
    """The schema registry answers with an error that says nothing about what was asked for."""

    url: str
    cause: str
    status: int
    """Of HTTP."""


class RegistryGaveNoSchema(Unreachable):
    url: str
    form: str | None
    """None: as it was registered."""
    is_text_instead: bool
    status: int = 200
    """Of HTTP."""

    def __str__(self) -> str:
        schema = f"{self.form} schema" if self.form else "schema"
        instead = (
            " (a text instead, as it was registered: register it as a descriptor, as Confluent's"
            " clients for Python and .NET do, or see decode.descriptor)"
        )
        return (
            f"the schema registry {self.url} answered without a {schema}"
            f"{instead if self.is_text_instead else ''}. {_LOOK_AT_IT}"
        )


class RowSchemaRejected(
    Refused,
    text="the schema registry {url} does not take the schema of the rows under subject {subject}:"
    " {cause}. Nothing was sent. The schema: {schema}",
):
    url: str
    subject: str
    schema: str
    cause: str
