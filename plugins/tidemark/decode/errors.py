"""What decoding can meet beside a value that is no row: a registry, a descriptor, a connection."""

from tidemark.errors import InvalidSettings, Refused, Unreachable

_LOOK_AT_IT = "Look at the registry and at its connection; no record becomes a dead letter for this"


class SubjectNotKnown(InvalidSettings):
    """The schema registry knows no subject of a name."""

    url: str
    subject: str

    def __str__(self) -> str:
        return (
            f"the schema registry {self.url} knows no subject {self.subject}: nobody has registered"
            " a schema under it yet, or the writers' subject has another name: set subject beside"
            " schema: registry"
        )


class SubjectUnreadable(InvalidSettings):
    """A subject's newest schema is none that columns can be taken from."""

    subject: str
    version: int
    cause: str

    def __str__(self) -> str:
        return f"{self.subject} version {self.version} can't be read: {self.cause}"


class SubjectWithoutField(InvalidSettings):
    """A subject's newest schema has no field."""

    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.version} has no field: name the subject of a record"


class DescriptorUnfit(InvalidSettings):
    """A message is not in its file of descriptors, or can't be read as the declared columns."""

    message: str
    cause: str

    def __str__(self) -> str:
        return (
            f"decode.descriptor, message {self.message}: {self.cause}. Write the file with all"
            " that it imports: protoc --include_imports --descriptor_set_out"
        )


class RegistryClientRefused(InvalidSettings):
    """The schema registry's client does not take what its connection says."""

    cause: str

    def __str__(self) -> str:
        return f"the schema registry's connection: {self.cause}"


class RegistryExtraUnused(InvalidSettings):
    """A registry's connection has keys in its extra that are not used."""

    conn_id: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"registry connection {self.conn_id!r} has {', '.join(self.keys)} in its extra, which"
            " is not used. Remove it"
        )


class RegistryExtraNested(InvalidSettings):
    """A registry's connection has something else than plain values in its extra."""

    conn_id: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"registry connection {self.conn_id!r}: {', '.join(self.keys)} in its extra must be a"
            " text or a number"
        )


class RegistryWithoutAddress(InvalidSettings):
    """A registry's connection has no address."""

    conn_id: str

    def __str__(self) -> str:
        return (
            f"registry connection {self.conn_id!r} has no address: set its host, such as"
            " https://registry:8081"
        )


class RegistryLoginInHost(InvalidSettings):
    """A registry's connection has a login in its host, where it would be shown."""

    conn_id: str

    def __str__(self) -> str:
        return (
            f"registry connection {self.conn_id!r} has a login in its host: use the fields login"
            " and password"
        )


class RegistrySilent(Unreachable):
    """The schema registry does not answer."""

    url: str
    cause: str

    def __str__(self) -> str:
        return f"the schema registry {self.url} did not answer: {self.cause}. {_LOOK_AT_IT}"


class RegistryFailed(Unreachable):
    """The schema registry answers with an error that says nothing about what was asked for."""

    url: str
    cause: str

    def __str__(self) -> str:
        return f"the schema registry {self.url} answered {self.cause}. {_LOOK_AT_IT}"


class RegistryGaveNoId(Unreachable):
    """The schema registry answers with a number that no schema has."""

    url: str
    found: int

    def __str__(self) -> str:
        return f"the schema registry {self.url} answered with the id {self.found}. {_LOOK_AT_IT}"


class RegistryGaveNoSchema(Unreachable):
    """The schema registry answers without a schema, or without it in the form asked for."""

    url: str
    form: str | None
    """None: as it was registered."""
    is_text_instead: bool

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


class RowSchemaRejected(Refused):
    """The schema registry does not take the schema of rows that are to be sent."""

    url: str
    subject: str
    schema: str
    cause: str

    def __str__(self) -> str:
        return (
            f"the schema registry {self.url} does not take the schema of the rows under subject"
            f" {self.subject}: {self.cause}. Nothing was sent. The schema: {self.schema}"
        )
