"""Errors of targets and staging: tables do not fit, or refuse or keep rows.

A room has one such file, by which its errors are found. It is long, for each case has its
own fields and text.
"""

from enum import StrEnum

from tidemark.errors import InvalidSettings, Refused, SchemaMismatch, TargetRefused, quoted
from tidemark.model.plain import amount
from tidemark.staging._row_errors import ColumnsTooMany as ColumnsTooMany

# Apart from these, a worker need not import what is here. Named again: all cases are found here.
from tidemark.staging._row_errors import ColumnsUnwritable as ColumnsUnwritable
from tidemark.staging._row_errors import CopyFellShort as CopyFellShort
from tidemark.staging._row_errors import DateHasNoJson as DateHasNoJson
from tidemark.staging._row_errors import ValueUnstorable as ValueUnstorable
from tidemark.staging.column import BATCH_SEQ, COORDINATES
from tidemark.staging.fit import Misfit

_PLACE = ", ".join(COORDINATES)

# A target is named as a statement spells it: "public"."flights".


class StagingHasOtherColumns(
    SchemaMismatch,
    text="{table} was made for the columns {found}, this member writes {wanted}; let every member"
    " of the run use the same transform",
):
    table: str
    found: dict[str, str]
    """Types by the names of columns."""
    wanted: dict[str, str]


# The target as a table.


class TargetSchemaMissing(
    Refused,
    text="{target}: schema {schema!q} does not exist; run: CREATE SCHEMA {schema!q} AUTHORIZATION"
    " {user!q};",
):
    target: str
    schema: str
    user: str


class TargetRightMissing(Refused, text="{user!q} may not {action} {target}; run: {grant}"):
    target: str
    user: str
    action: str
    grant: str
    """The statements that an owner may run."""


_NO_TABLES = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table, which is outside of the transaction",
    "i": "an index",
    "I": "an index",
    "S": "a sequence",
    "c": "a composite type",
}
"""By their kind, as in pg_class."""


class TargetIsNoTable(
    Refused, text="{target} is {_what}; set target.table to a table (it may be partitioned)"
):
    target: str
    kind: str

    @property
    def _what(self) -> str:
        return _NO_TABLES.get(self.kind, "no table")


class TargetIsUnlogged(Refused):
    target: str
    tables: tuple[str, ...]
    """The target itself, or tables below it."""

    def __str__(self) -> str:
        parts = "" if self.tables == (self.target,) else f" (below {self.target})"
        alter = "\n".join(f"ALTER TABLE {table} SET LOGGED;" for table in self.tables)
        return (
            f"UNLOGGED: {', '.join(self.tables)}{parts}. A crash of Postgres would empty that, but"
            f" not the ledger; run: {alter}"
        )


class PartsAreForeign(Refused):
    target: str
    parts: tuple[tuple[str, str], ...]
    """The table above each, and its own name."""

    def __str__(self) -> str:
        names = ", ".join(table for _, table in self.parts)
        detach = "\n".join(
            f"ALTER TABLE {parent} DETACH PARTITION {table};" for parent, table in self.parts
        )
        return (
            f"foreign tables below {self.target}: {names}. They are outside of the transaction: a"
            " crash could leave rows there that the ledger does not know, which would come twice;"
            f" run (for one that inherits ALTER FOREIGN TABLE ... NO INHERIT ...): {detach}"
        )


class TargetHidesRows(
    Refused,
    text="{target} has row level security that applies to {user!q}: rows that it hides can be"
    " neither counted nor removed, and would arrive twice after a rewind; run as an administrator:"
    " ALTER ROLE {user!q} BYPASSRLS; or: ALTER TABLE {target} DISABLE ROW LEVEL SECURITY;",
):
    target: str
    user: str


class TargetHasRules(
    Refused,
    text="{target} has rules that replace an INSERT: {rules:list}; no row would arrive in it. Set"
    " target.table to the table that they write to, or run: {_drops}",
):
    target: str
    rules: tuple[str, ...]

    @property
    def _drops(self) -> str:
        return " ".join(f"DROP RULE {quoted(name)} ON {self.target};" for name in self.rules)


class TargetDoesNotFit(SchemaMismatch):
    target: str
    differences: tuple[Misfit, ...]

    def __str__(self) -> str:
        actions = dict.fromkeys(action for one in self.differences for action in one.actions)
        return "\n".join(
            [
                f"{self.target} does not fit the transform's rows; nothing was written:",
                *(f"  {one.column}: {one.fact}" for one in self.differences),
                f"change the transform{', or alter the table:' if actions else ''}",
                *(f"  ALTER TABLE {self.target} {action};" for action in actions),
            ]
        )


class TargetsDoNotFit(SchemaMismatch, text="{causes:lines}"):
    causes: tuple[SchemaMismatch, ...]
    """One of each target."""


class ColumnsMayNotBeAdded(
    Refused,
    text="{target} lacks {columns:list}, which can't be added: {cause}. Its owner may run: ALTER"
    " TABLE {target} {_added:list};",
):
    target: str
    columns: dict[str, str]
    """Types by names."""
    cause: str

    @property
    def _added(self) -> list[str]:
        return [f"ADD COLUMN {quoted(name)} {kind}" for name, kind in self.columns.items()]


class TargetHasLeftovers(
    Refused,
    text="{target} has rows of batches, and this region has published none: they are of a region"
    " that was dropped, or of another ledger. To keep them as rows of no batch, run: ALTER TABLE"
    " {target} ALTER COLUMN "
    + BATCH_SEQ
    + " SET DEFAULT 0, then set it to 0 in the rows where it is larger; or choose another table",
):
    target: str


# Foreign keys between targets.


class ForeignKeysInCircle(Refused):
    foreign_keys: tuple[tuple[str, str], ...]
    """Those that can't be deferred: the table that refers, and the constraint."""

    def __str__(self) -> str:
        return (
            "foreign keys between the targets form a circle, so none of them can have its rows"
            f" first; run: {' or '.join(_deferrable(*one) for one in self.foreign_keys)}"
        )


class ForeignKeyNotDeferrable(
    Refused,
    text="rows of {parent} may be deleted or changed together with those of {child} that refer to"
    " them, which foreign key {constraint!q} does not allow; run: {_statement}",
):
    constraint: str
    child: str
    parent: str

    @property
    def _statement(self) -> str:
        return _deferrable(self.child, self.constraint)


class ForeignKeyActs(
    Refused,
    text="foreign key {constraint!q} of {child} changes or deletes its rows when {parent} changes:"
    " no batch would count these. Create it again with ON DELETE NO ACTION ON UPDATE NO ACTION"
    " DEFERRABLE",
):
    constraint: str
    child: str
    parent: str


def _deferrable(child: str, constraint: str) -> str:
    alter = f"ALTER TABLE {child} ALTER CONSTRAINT {quoted(constraint)} DEFERRABLE;"
    return f"{alter} (if it has RESTRICT, create it again with NO ACTION)"


# What an upsert, and dead letters of refused rows, need.


class RowsLackCoordinates(
    InvalidSettings,
    text="target.{setting} needs the columns "
    + _PLACE
    + " unchanged; the transform drops or changes {missing:list}. Keep them, or set {instead}",
):
    setting: str
    instead: str
    """The setting that does without."""
    missing: tuple[str, ...]


class UpsertColumnsMissing(
    InvalidSettings,
    text="target: the rows have no column {missing:list}; they have {columns:list}. Return it from"
    " the transform, or correct its name in the pipeline file",
):
    missing: tuple[str, ...]
    columns: tuple[str, ...]


class UpsertColumnsReserved(InvalidSettings):
    prefix: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"target.mode: upsert can't write columns whose names begin with {self.prefix!r}:"
            f" {[*self.columns]}. Rename them in the transform"
        )


class DeletedIsNoBoolean(
    InvalidSettings,
    text="target.deleted: column {column} is {postgres_type}, not boolean. Cast it in the"
    " transform",
):
    column: str
    postgres_type: str


class ColumnTypeUnfit(
    InvalidSettings,
    text="target.{setting}: column {column} of {target} is {postgres_type}; use {allowed}",
):
    setting: str
    column: str
    target: str
    postgres_type: str
    allowed: str


class UniqueIndexMissing(
    SchemaMismatch,
    text="{target} has no unique index on exactly ({key!q:list}), which an upsert needs (not"
    " partial, not deferrable); run: CREATE UNIQUE INDEX ON {target} ({key!q:list});",
):
    target: str
    key: tuple[str, ...]


class CollationNondeterministic(
    SchemaMismatch,
    text="{target}: a column of ({key!q:list}), or the unique index on them, has a"
    " nondeterministic collation: it calls different texts equal. Give the columns a deterministic"
    " one",
):
    target: str
    key: tuple[str, ...]


class TargetIsInherited(
    Refused,
    text="tables that inherit from {target}: {children:list}. A unique index does not reach them,"
    " so a key could be there twice; use partitions instead, or run: {_statements:lines}",
):
    target: str
    children: tuple[str, ...]

    @property
    def _statements(self) -> list[str]:
        return [f"ALTER TABLE {child} NO INHERIT {self.target};" for child in self.children]


class Undecided(StrEnum):
    """Why a key's last row is not known; in the order in which a query counts such keys."""

    null_key = "null_key"
    null_order = "null_order"
    tied = "tied"
    in_two_partitions = "in_two_partitions"
    of_no_record = "of_no_record"


UNDECIDED = {
    Undecided.null_key: ("have a null in a column of the key", "Filter such rows in the transform"),
    Undecided.null_order: ("have a null in order_by", "Give each row a value in the transform"),
    Undecided.tied: (
        "have two last rows of one record",
        "Let the transform return one row a key of each record",
    ),
    Undecided.in_two_partitions: (
        "were met in two partitions, so which of their rows is the last is not known",
        "Set target.order_by (a new run then needs --accept-changes), or key the topic's records by"
        " the same columns",
    ),
    Undecided.of_no_record: (
        "have a last row whose kafka_topic, kafka_partition and kafka_offset are those of no record"
        " of the batch",
        "Keep these columns unchanged in the transform",
    ),
}
"""The fact about the keys, and the remedy."""


class _KeptByGuards:
    """Triggers and rules of the target are to blame, as far as they are known."""

    by: tuple[str, ...]

    @property
    def _by(self) -> str:
        return ", ".join(self.by) or "a trigger or a rule of it"


_OF_UPSERT = "{target} by key ({key:list}): "


class LastRowUnknown(TargetRefused):
    target: str
    key: tuple[str, ...]
    seq: int
    keys: int
    why: Undecided

    def __str__(self) -> str:
        fact, remedy = UNDECIDED[self.why]
        return (
            f"{self.target} by key ({', '.join(self.key)}): {self.keys} keys {fact}; nothing of"
            f" batch {self.seq} is published. {remedy}, then run again"
        )


class RowUnplaced(LastRowUnknown):
    """A row lacks its key or its order: it is refused like one that a constraint refuses."""


class MarkedRowsKept(
    _KeptByGuards,
    TargetRefused,
    text=_OF_UPSERT
    + "{rows} rows that are marked as deleted are kept by {_by}; nothing of batch {seq} is"
    " published. Let it return OLD, then run again",
):
    target: str
    key: tuple[str, ...]
    seq: int
    rows: int
    by: tuple[str, ...]


class KeysAltered(
    _KeptByGuards,
    TargetRefused,
    text=_OF_UPSERT
    + "{rows} rows were given another key or batch_seq by {_by}; nothing of batch {seq} is"
    " published. Let the transform make the key, and the trigger leave it, then run again",
):
    target: str
    key: tuple[str, ...]
    seq: int
    rows: int
    by: tuple[str, ...]


class OthersWrite(
    TargetRefused,
    text="{targets:or}: other sessions wrote to keys of batch {seq} while it was published,"
    " {tries} times; nothing of it is published. Let nobody else write to the table while a run is"
    " at work (pg_stat_activity names sessions), then run again",
):
    targets: tuple[str, ...]
    seq: int
    tries: int


# A publish.


class RowRefused(
    TargetRefused,
    text="{targets:or} refuses a row of {_whose}: {guard}; nothing of the batch is published."
    " Correct the rows in the transform, or change the table, then run again",
):
    targets: tuple[str, ...]
    """Those that it may be."""
    names: dict[str, str]
    """Of the constraint, the column, the type and the table, as far as the server tells."""
    sqlstate: str
    condition: str
    record: str | None = None
    """Of which the row is, as topic[partition]@offset; None: it was not found."""

    @property
    def guard(self) -> str:
        """What refuses, as a dead letter's detail has it."""
        named = ", ".join(f"{kind} {name}" for kind, name in self.names.items()) or "a value"
        return f"{named} (SQLSTATE {self.sqlstate} {self.condition})"

    @property
    def _whose(self) -> str:
        return f"record {self.record}" if self.record else "the batch"


class RowsNotPrepared(
    TargetRefused,
    text="{target} refuses rows of the batch, though none of them alone: {guard}; nothing of the"
    " batch is published. Correct the rows in the transform, or change the table, then run again",
):
    target: str
    guard: str


class RecordsLeftOut(
    TargetRefused,
    text="batch {seq}: {records} records were left out when their rows were staged: {guard};"
    " nothing of the batch is published. A replay leaves none out: correct the rows in the"
    " transform. In a run, all drivers need the same target.on_refused",
):
    seq: int
    records: int
    guard: str
    """What refused the first."""


class RefusedRowsOfNoRecord(
    TargetRefused,
    text="rows of the batch are refused, first by {guard}; they can't become dead letters: "
    + _PLACE
    + " of {rows} of them are not those of a record of the batch. Nothing is published. Keep these"
    " columns unchanged in the transform, then run again",
):
    guard: str
    """What refuses the first."""
    rows: int


class RefusedRowsNotAllFound(
    TargetRefused,
    text="{targets:or} refuses rows of the batch: {found} records were found in {seconds:.0f} s"
    " and the search is not finished; nothing is published. Correct the rows in the transform,"
    " change the table, or lower batch.max_records, then run again",
):
    targets: tuple[str, ...]
    found: int
    seconds: float


class TargetKeptRowsOut(_KeptByGuards, TargetRefused):
    target: str
    staged: int
    moved: int
    by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.staged - self.moved} of {self.staged} staged rows did not reach {self.target}:"
            f" {self._by} dropped them; nothing of the batch is published. Filter such rows"
            " in the transform, or change the trigger (RETURN NEW lets a row in), then run again"
        )


# What is sent to an output topic.


class OutputKeyMissing(
    Refused,
    text="{target} has no column {missing:list}, which output.key names: correct it, or let the"
    " transform return the column",
):
    target: str
    missing: tuple[str, ...]


class RowsToSendDiffer(
    Refused,
    text="region {region}: batch {seq} published {published} changes of rows of {target}, and"
    " {found} are there to be sent: somebody else deleted or inserted rows, or made the table"
    " anew. Nothing of the batch was sent. `tidemark verify` names the rows: correct them, or"
    " rewind to the checkpoint before. If its consumers can miss them, `tidemark withhold {region}"
    " {seq}` lets it pass",
):
    region: str
    seq: int
    target: str
    published: int
    found: int


# A rewind.


class TargetLacksColumns(
    Refused,
    text="{target} has no column {missing:list}, so a rewind can't tell which rows it takes back."
    " Restore it with its values",
):
    target: str
    missing: tuple[str, ...]


class TargetLacksIdentity(
    Refused,
    text="{target}: publication {publications!q:list} sends {changes}, and nothing tells the rows"
    " apart, so Postgres refuses {changes}. Nothing was changed; run: {_statements}",
):
    target: str
    tables: tuple[str, ...]
    """The target itself, or partitions of it."""
    publications: tuple[str, ...]
    changes: str
    """What Postgres refuses."""

    @property
    def _statements(self) -> str:
        return " ".join(f"ALTER TABLE {table} REPLICA IDENTITY FULL;" for table in self.tables)


class TargetKeepsRows(
    _KeptByGuards,
    TargetRefused,
    text="{target}: {removed} rows were deleted and {left} are still there: {_by} keeps them."
    " Nothing was removed. Let it return OLD, or disable it for the rewind, then rewind again",
):
    target: str
    removed: int
    left: int
    by: tuple[str, ...]


class KeptRowsPruned(
    Refused,
    text="region {region}: what the keys of {target} were before checkpoint {oldest_seq} was"
    " pruned, so no rewind goes back behind it. Nothing was changed. Rewind to {oldest_seq} or"
    " later; or fill another table by a new region",
):
    region: str
    target: str
    oldest_seq: int


class PublishedOtherwiseBefore(Refused):
    region: str
    target: str
    after_seq: int
    seq: int
    """The newest batch that was published otherwise than those after it."""
    keys: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
    """By which columns up to it, and by which after it; None: rows were appended."""

    def __str__(self) -> str:
        before, after = (
            "upserted by " + ", ".join(key) if key else "appended" for key in self.keys
        )
        return (
            f"region {self.region}: up to batch {self.seq} rows of {self.target} were {before},"
            f" later ones were {after}. These are taken back in different ways. Nothing was"
            f" changed. Rewind to {self.seq} first, then to {self.after_seq or 'initial'}"
        )


class KeysChangedByOthers(
    Refused,
    text="{target}: {keys} keys that batches after {after_seq} changed are not as these left them:"
    " somebody else deleted or changed their rows. Nothing was changed. `tidemark verify` names"
    " the rows; put them right, or rewind to a newer checkpoint",
):
    target: str
    after_seq: int
    keys: int


class KeptRowsHaveOtherColumns(
    Refused,
    text="{target} has lost the columns {lost:list} and got {got:list} since the rows of older"
    " checkpoints were kept. Tidemark can't tell whether a column was renamed, and would not put"
    " back its values. Nothing was changed. Give each renamed column its old name for the rewind,"
    " or rewind to a newer checkpoint",
):
    target: str
    lost: tuple[str, ...]
    got: tuple[str, ...]


class KeptValuesAltered(
    Refused,
    text="{target}: column {column!q} is {postgres_type} now; of {_rows} that were kept for a"
    " rewind it would not hold the value that was there. Nothing was changed. Give the column the"
    " type that it had (ALTER TABLE … ALTER COLUMN … TYPE), then rewind again, or rewind to a newer"
    " checkpoint",
):
    target: str
    column: str
    postgres_type: str
    rows: int | None
    """In how many; None: what was kept of one is no value of the type at all."""

    @property
    def _rows(self) -> str:
        return "some rows" if self.rows is None else f"{self.rows} rows"


def _acting(found: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"foreign key {quoted(name)} of {table}" for table, name in found)


class KeysInTheWay(
    TargetRefused,
    text="{target}: keys can't be put back one after the other ({guard}), and if their rows were"
    " deleted first, {_acting} would delete or change others. Nothing was changed. Make the"
    " constraint that refuses them DEFERRABLE (ALTER TABLE … DROP CONSTRAINT …, ADD UNIQUE (…)"
    " DEFERRABLE), then rewind again",
):
    target: str
    guard: str
    """What of the target refuses them one after the other."""
    acting: tuple[tuple[str, str], ...]
    """Tables with their foreign keys."""

    @property
    def _acting(self) -> str:
        return _acting(self.acting)


class KeysRenumbered(TargetRefused):
    target: str
    keys: int
    acting: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return (
            f"{self.target}: {amount(self.keys, 'key')} came back with another number (GENERATED"
            " ALWAYS AS IDENTITY). To have the old one a row must be deleted, and"
            f" {_acting(self.acting)} would delete or change others. Nothing was changed. Let the"
            " number be written (ALTER TABLE … ALTER … SET GENERATED BY DEFAULT), then rewind again"
        )


class KeysNotPutBack(
    _KeptByGuards,
    TargetRefused,
    text="{target}: {left} rows are still of later batches and {missing} were not put back, because"
    " of {_by}. Nothing was changed. Disable it for the rewind, then rewind again",
):
    target: str
    left: int
    """Rows of later batches."""
    missing: int
    """Rows that did not come back."""
    by: tuple[str, ...]
