"""What a test of one's own pipeline can meet: what was not given, or can't be used."""

from tidemark.errors import InvalidSettings


class RowsOfSeveralTargets(InvalidSettings):
    """Rows were asked for without a target, and there are several."""

    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"rows of several targets: use by_target[...], of {', '.join(self.targets)}"


class FieldsInRegistry(InvalidSettings):
    """Only a registry knows a pipeline's columns."""

    region: str
    sections: tuple[str, ...]
    """Of the pipeline file: decode.key."""

    def __str__(self) -> str:
        return (
            f"{self.region}: {', '.join(self.sections)}.schema is registry, and a test asks none:"
            " copy the file and declare the fields (`tidemark preview` shows them)"
        )


class RegistryNotGiven(InvalidSettings):
    """The pipeline has a schema registry whose connection the test does not give."""

    connection: str

    def __str__(self) -> str:
        name = self.connection
        return (
            f"{name}: give the registry's connection, such as"
            f" connections={{{name!r}: Connection({name!r}, 'http', 'http://host', 8081)}}"
        )


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


class DdlWithoutTable(InvalidSettings):
    """A DDL does not make the tables of some targets."""

    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"the DDL has no CREATE TABLE of {', '.join(self.targets)}: add it"
