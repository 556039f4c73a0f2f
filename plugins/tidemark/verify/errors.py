"""Errors of a proof."""

from tidemark.errors import InvalidSettings, Refused, SchemaMismatch


class TransformIsAnother(
    SchemaMismatch,
    text="{target} lacks the columns {columns:list} that the transform returns: another transform"
    " wrote the table; verify with the pipeline file that wrote it",
):
    target: str
    columns: tuple[str, ...]


class AuditColumnsDiffer(SchemaMismatch):
    """A table of another tool and the rows of a pipeline do not have the same columns."""

    target: str
    missing: tuple[str, ...]
    """Of the rows; the table lacks them."""
    unknown: tuple[str, ...]
    """Of the table; no record tells them."""

    def __str__(self) -> str:
        facts = []
        if self.missing:
            facts.append(f"the table lacks {', '.join(self.missing)}, which the rows have")
        if self.unknown:
            facts.append(f"the table has {', '.join(self.unknown)}, which the rows lack")
        options = " ".join(f"--ignore {name}" for name in (*self.missing, *self.unknown))
        return (
            f"{self.target}: {'; '.join(facts)}. Name the columns in decode and transform as the"
            f" table does, or leave out what no record tells, such as load times: {options}"
        )


class AuditColumnUnknown(
    InvalidSettings, text="--ignore {column}: neither {target} nor the rows have such a column"
):
    target: str
    column: str


class AuditColumnNeeded(
    InvalidSettings,
    text="{target}: the column {column} tells which record a row is of; it can't be left out, and"
    " rows and table need it",
):
    target: str
    column: str


class AuditTypesDiffer(
    SchemaMismatch,
    text="{target}: values of the rows can't become those of the table's columns: {cause}. Declare"
    " the field in decode as the type that the table has, or convert it in the transform",
):
    target: str
    cause: str


class AuditRowsUnfit(
    SchemaMismatch,
    text="{target}: more than {rows} records give rows that the table can't hold, such as numbers"
    " that are too large. Compare the types in decode with those of the table; --ignore a column"
    " that the other tool fills otherwise",
):
    target: str
    rows: int


class RowsBearNoRecord(
    SchemaMismatch,
    text="the transform's rows do not tell their record: pass {columns:list} on unchanged. The"
    " table need not have these columns",
):
    columns: tuple[str, ...]


class RowsNotByRecord(
    SchemaMismatch,
    text="the transform makes rows of several records, or changes their coordinates (groups,"
    " windows, distinct): which rows the table should have depends on the batches of the tool that"
    " filled it. Audit with a transform whose rows are each made of one record",
):
    """What a table should hold can't be told record by record."""


class AuditNeedsOneTarget(
    InvalidSettings,
    text="{file}: an audit looks at one table, and the file has the targets {targets:list}. Write a"
    " file with the one that you mean",
):
    file: str
    targets: tuple[str, ...]


class AuditOrderUnknown(
    InvalidSettings,
    text="{target}: order_by {column} is not supported by an audit: leave it out of the file. Then"
    " the last record of each partition is a key's last one",
):
    target: str
    column: str


class AuditNeedsBound(
    InvalidSettings,
    text="{target}: nothing says up to which record the table is filled: it has no coordinates of"
    " records. Give the consumer group of the tool that fills it (--group), or a time or offsets"
    " (--until)",
):
    target: str


class AuditTableMissing(
    InvalidSettings, text="{target}: there is no such table or view, or this login can't see it"
):
    target: str


class AuditRowsHidden(
    Refused,
    text="{target}: row level security hides rows from {user}: what it hides would be called lost."
    " Audit with a login that may read all rows (BYPASSRLS, or a policy that lets it)",
):
    target: str
    user: str


class TopicsMadeAgain(
    Refused,
    text="topics {topics:list} were deleted and created again while the table was read. Audit"
    " again",
):
    topics: tuple[str, ...]
