"""What a test of one's own pipeline can meet: what was not given, or can't be used."""

from tidemark.errors import InvalidSettings


class RowsOfSeveralTargets(
    InvalidSettings,
    text="rows of several targets: use by_target[...], of {targets:list}",
):
    targets: tuple[str, ...]


class FieldsInRegistry(
    InvalidSettings,
    text="{region}: {sections:list}.schema is registry, and a test asks none: copy the file and"
    " declare the fields (`tidemark preview` shows them)",
):
    region: str
    sections: tuple[str, ...]
    """Of the pipeline file: decode.key."""


class RegistryNotGiven(
    InvalidSettings,
    text="{connection}: give the registry's connection, such as connections={{{connection!r}:"
    " Connection({connection!r}, 'http', 'http://host', 8081)}}",
):
    connection: str


class DdlRefused(InvalidSettings):
    """Postgres does not take a DDL."""

    cause: str
    line: int | None
    """Of the DDL, from 1."""

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line else ""
        return (
            f"Postgres refuses the DDL{where}: {self.cause}. It runs in an empty database: what it"
            " needs (a schema, a role, a type, another table) has to stand before it"
        )


class DdlWithoutTable(
    InvalidSettings,
    text="the DDL has no CREATE TABLE of {targets:list}: add it",
):
    targets: tuple[str, ...]
