"""What a test of one's own pipeline can meet: what needs a server, or what was not given."""

from tidemark.errors import InvalidSettings

ASK = "Ask the real table: `tidemark check`"


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


class DdlUnreadable(InvalidSettings):
    """sqlglot can't read a DDL."""

    cause: str

    def __str__(self) -> str:
        return f"the DDL can't be read: {self.cause} {ASK}"


class DdlWithoutTable(InvalidSettings):
    """A DDL makes a target's table not at all, or several times."""

    target: str
    statements: int
    """That make it."""

    def __str__(self) -> str:
        return f"the DDL has {self.statements} statements CREATE TABLE {self.target}; it needs one"


class DdlNotJudged(InvalidSettings):
    """A DDL has a statement that changes a table, and which only a server can judge."""

    statement: str
    """Its beginning."""

    def __str__(self) -> str:
        return (
            f"{self.statement}: only CREATE TABLE and CREATE INDEX are judged: say it"
            f" in CREATE TABLE. {ASK}"
        )


class DdlPartNotJudged(InvalidSettings):
    """A CREATE TABLE has a part that only a server can judge."""

    target: str
    part: str
    """Its beginning."""

    def __str__(self) -> str:
        return f"{self.target}: {self.part}: this is not judged here. {ASK}"


class DdlTypesUnknown(InvalidSettings):
    """Columns to be written have a type that is not known without a server."""

    target: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.target}: the type of {', '.join(self.columns)} is not known here. {ASK}"
