"""What targets and staging can meet: tables that do not fit, and rows that they refuse or keep.

A room has one such file, by which its errors are found. It is long, for each case has its
own fields and text.
"""

from enum import StrEnum

from tidemark.errors import InvalidSettings, Refused, SchemaMismatch, TargetRefused
from tidemark.model.plain import amount

# Apart from these, a worker need not import what is here. Named again: all cases are found here.
from tidemark.staging._row_errors import ColumnsUnwritable as ColumnsUnwritable
from tidemark.staging._row_errors import CopyFellShort as CopyFellShort
from tidemark.staging._row_errors import DateHasNoJson as DateHasNoJson
from tidemark.staging._row_errors import ValueUnstorable as ValueUnstorable
from tidemark.staging.column import BATCH_SEQ, COORDINATES
from tidemark.staging.fit import Misfit, quoted

_PLACE = ", ".join(COORDINATES)

# A target is named as a statement spells it: "public"."flights".


class StagingHasOtherColumns(SchemaMismatch):
    """Another member has made the batch's staging table for other columns."""

    table: str
    found: dict[str, str]
    """Types by the names of columns."""
    wanted: dict[str, str]

    def __str__(self) -> str:
        return (
            f"{self.table} was made for the columns {self.found}, this member "
            f"writes {self.wanted}; let every member of the run use the same transform"
        )


# The target as a table.


class TargetSchemaMissing(Refused):
    """The schema of a target that is to be made does not exist."""

    target: str
    schema: str
    user: str

    def __str__(self) -> str:
        schema = quoted(self.schema)
        return (
            f"{self.target}: schema {schema} does not exist; run: "
            f"CREATE SCHEMA {schema} AUTHORIZATION {quoted(self.user)};"
        )


class TargetMayNotBeMade(Refused):
    """The target does not exist, and the role may not create it."""

    target: str
    schema: str
    user: str

    def __str__(self) -> str:
        schema, user = quoted(self.schema), quoted(self.user)
        return (
            f"{self.target} does not exist and {user} may not create it; run: "
            f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}; or create the table"
        )


class TargetIsNoTable(Refused):
    """The target's name is that of something else."""

    target: str
    kind: str
    """As in pg_class."""

    def __str__(self) -> str:
        kind = {
            "v": "a view",
            "m": "a materialized view",
            "f": "a foreign table, which is outside of the transaction",
            "i": "an index",
            "I": "an index",
            "S": "a sequence",
            "c": "a composite type",
        }.get(self.kind, "no table")
        return f"{self.target} is {kind}; set target.table to a table (it may be partitioned)"


class TargetIsUnlogged(Refused):
    """A crash of Postgres would empty the target, or a part of it."""

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
    """Foreign tables below the target are outside of the transaction."""

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


class TargetHidesRows(Refused):
    """Policies of the target apply to the role: it can't count or remove what it wrote."""

    target: str
    user: str

    def __str__(self) -> str:
        user = quoted(self.user)
        return (
            f"{self.target} has row level security that applies to {user}: rows that it hides can"
            " be neither counted nor removed, and would arrive twice after a rewind; run as an"
            f" administrator: ALTER ROLE {user} BYPASSRLS; or: ALTER TABLE {self.target} DISABLE"
            " ROW LEVEL SECURITY;"
        )


class TargetHasRules(Refused):
    """Rules of the target replace an INSERT."""

    target: str
    rules: tuple[str, ...]

    def __str__(self) -> str:
        drops = " ".join(f"DROP RULE {quoted(name)} ON {self.target};" for name in self.rules)
        return (
            f"{self.target} has rules that replace an INSERT: {', '.join(self.rules)}; no row would"
            f" arrive in it. Set target.table to the table that they write to, or run: {drops}"
        )


class TargetDoesNotFit(SchemaMismatch):
    """The target's columns do not take the rows."""

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


class TargetsDoNotFit(SchemaMismatch):
    """Several targets do not take the rows."""

    causes: tuple[SchemaMismatch, ...]
    """One of each target."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.causes))


class TargetMayNotBeWritten(Refused):
    """The role lacks a right to insert."""

    target: str
    schema: str
    user: str
    is_usage_missing: bool
    """Of the schema."""
    is_insert_missing: bool

    def __str__(self) -> str:
        user, grants = quoted(self.user), []
        if self.is_usage_missing:
            grants.append(f"GRANT USAGE ON SCHEMA {quoted(self.schema)} TO {user};")
        if self.is_insert_missing:
            grants.append(f"GRANT INSERT ON {self.target} TO {user};")
        return f"{user} may not write to {self.target}; run: {' '.join(grants)}"


class ColumnsMayNotBeAdded(Refused):
    """The target lacks columns, and is another role's."""

    target: str
    columns: dict[str, str]
    """Types by names."""
    cause: str

    def __str__(self) -> str:
        added = (f"ADD COLUMN {quoted(name)} {kind}" for name, kind in self.columns.items())
        return (
            f"{self.target} lacks {', '.join(self.columns)}, which can't be added: {self.cause}."
            f" Its owner may run: ALTER TABLE {self.target} {', '.join(added)};"
        )


class TargetHasLeftovers(Refused):
    """The target of a region that has published nothing has rows of batches."""

    target: str

    def __str__(self) -> str:
        return (
            f"{self.target} has rows of batches, and this region has published none: they are of a"
            " region that was dropped, or of another ledger. To keep them as rows of no batch, run:"
            f" ALTER TABLE {self.target} ALTER COLUMN {BATCH_SEQ} SET DEFAULT 0, then set it to 0"
            " in the rows where it is larger; or choose another table"
        )


# Foreign keys between targets.


class ForeignKeysInCircle(Refused):
    """None of the targets can have its rows first."""

    foreign_keys: tuple[tuple[str, str], ...]
    """Those that can't be deferred: the table that refers, and the constraint."""

    def __str__(self) -> str:
        return (
            "foreign keys between the targets form a circle, so none of them can have its rows"
            f" first; run: {' or '.join(_deferrable(*one) for one in self.foreign_keys)}"
        )


class ForeignKeyNotDeferrable(Refused):
    """Rows may change together with those that refer to them, but not in one transaction."""

    constraint: str
    child: str
    parent: str

    def __str__(self) -> str:
        return (
            f"rows of {self.parent} may be deleted or changed together with those of {self.child}"
            f" that refer to them, which foreign key {quoted(self.constraint)} does not allow; run:"
            f" {_deferrable(self.child, self.constraint)}"
        )


class ForeignKeyActs(Refused):
    """A foreign key changes or deletes rows by itself, which nobody would count."""

    constraint: str
    child: str
    parent: str

    def __str__(self) -> str:
        return (
            f"foreign key {quoted(self.constraint)} of {self.child} changes or deletes its rows"
            f" when {self.parent} changes: no batch would count these. Make it anew with ON DELETE"
            " NO ACTION ON UPDATE NO ACTION DEFERRABLE"
        )


def _deferrable(child: str, constraint: str) -> str:
    alter = f"ALTER TABLE {child} ALTER CONSTRAINT {quoted(constraint)} DEFERRABLE;"
    return f"{alter} (one with RESTRICT: make it anew with NO ACTION)"


# What an upsert, and dead letters of refused rows, need.


class RowsLackCoordinates(InvalidSettings):
    """The rows lack the coordinates of their record, which a setting needs."""

    setting: str
    instead: str
    """The setting that does without."""
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"target.{self.setting} needs the columns {_PLACE} unchanged; the transform drops"
            f" or changes {', '.join(self.missing)}. Keep them, or set {self.instead}"
        )


class UpsertColumnsMissing(InvalidSettings):
    """The rows lack columns that the upsert names."""

    missing: tuple[str, ...]
    columns: tuple[str, ...]
    """That the rows have."""

    def __str__(self) -> str:
        return (
            f"target: the rows have no column {', '.join(self.missing)}; they have"
            f" {', '.join(self.columns)}. Return it from the transform, or correct its name in the"
            " pipeline file"
        )


class UpsertColumnsReserved(InvalidSettings):
    """Columns of the rows begin like those that an upsert adds."""

    prefix: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"target.mode: upsert can't write columns whose names begin with {self.prefix!r}:"
            f" {[*self.columns]}. Rename them in the transform"
        )


class DeletedIsNoBoolean(InvalidSettings):
    """The column that marks deletions is not boolean."""

    column: str
    postgres_type: str

    def __str__(self) -> str:
        return (
            f"target.deleted: column {self.column} is {self.postgres_type}, not boolean. Cast it in"
            " the transform"
        )


class KeyTypeUnfit(InvalidSettings):
    """Equal values of a key's column may have different texts."""

    column: str
    target: str
    postgres_type: str

    def __str__(self) -> str:
        return (
            f"target.key: column {self.column} of {self.target} is {self.postgres_type}, whose"
            " equal values may have different texts; use a number, text, date, timestamp, uuid or"
            " bytea"
        )


class OrderTypeUnfit(InvalidSettings):
    """Values of the column that tells the last row have no order that is sure."""

    column: str
    target: str
    postgres_type: str

    def __str__(self) -> str:
        return (
            f"target.order_by: column {self.column} of {self.target} is {self.postgres_type}; use"
            " an integer, a decimal, a date, a timestamp or text"
        )


class UniqueIndexMissing(SchemaMismatch):
    """The target has no unique index on exactly the key."""

    target: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        columns = ", ".join(map(quoted, self.key))
        return (
            f"{self.target} has no unique index on exactly ({columns}), which an upsert needs (not"
            f" partial, not deferrable); run: CREATE UNIQUE INDEX ON {self.target} ({columns});"
        )


class CollationNondeterministic(SchemaMismatch):
    """The key's columns, or the unique index on them, call different texts equal."""

    target: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.target}: a column of ({', '.join(map(quoted, self.key))}), or the unique index"
            " on them, has a nondeterministic collation: it calls different texts equal. Give the"
            " columns a deterministic one"
        )


class TargetIsInherited(Refused):
    """A key could be in the target and in a table that inherits from it."""

    target: str
    children: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.children)
        alter = "\n".join(f"ALTER TABLE {one} NO INHERIT {self.target};" for one in self.children)
        return (
            f"tables that inherit from {self.target}: {names}. A unique index does not reach them,"
            f" so a key could be there twice; use partitions instead, or run: {alter}"
        )


class TargetMayNotBeUpserted(Refused):
    """The role lacks rights that an upsert needs."""

    target: str
    user: str
    rights: tuple[str, ...]

    def __str__(self) -> str:
        user = quoted(self.user)
        return (
            f"{user} may not upsert into {self.target}; run: GRANT {', '.join(self.rights)} ON"
            f" {self.target} TO {user};"
        )


class Undecided(StrEnum):
    """Why a key's last row is not known; in the order in which a query counts such keys."""

    null_key = "null_key"
    null_order = "null_order"
    tied = "tied"
    in_two_partitions = "in_two_partitions"
    of_no_record = "of_no_record"


UNDECIDED = {
    Undecided.null_key: (
        "have a null in a column of the key",
        "Filter such rows in the transform",
    ),
    Undecided.null_order: (
        "have a null in order_by",
        "Give each row a value in the transform",
    ),
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
"""What is so of the keys, and what helps."""


class LastRowUnknown(TargetRefused):
    """It is not known which of a key's rows is the last one."""

    target: str
    key: tuple[str, ...]
    seq: int
    keys: int
    why: Undecided

    def __str__(self) -> str:
        what, remedy = UNDECIDED[self.why]
        return _of_upsert(self.target, self.key, self.seq, f"{self.keys} keys {what}", remedy)


class RowUnplaced(LastRowUnknown):
    """A row lacks its key or its order: it is refused like one that a constraint refuses."""


class MarkedRowsKept(TargetRefused):
    """The target keeps rows that are marked as deleted."""

    target: str
    key: tuple[str, ...]
    seq: int
    rows: int
    by: tuple[str, ...]
    """Triggers and rules."""

    def __str__(self) -> str:
        kept = f"{self.rows} rows that are marked as deleted are kept by {_named(self.by)}"
        return _of_upsert(self.target, self.key, self.seq, kept, "Let it return OLD")


def _of_upsert(target: str, key: tuple[str, ...], seq: int, what: str, remedy: str) -> str:
    return (
        f"{target} by key ({', '.join(key)}): {what}; nothing of batch {seq} is published."
        f" {remedy}, then run again"
    )


def _named(guards: tuple[str, ...]) -> str:
    return ", ".join(guards) or "a trigger or a rule of it"


# A publish.


class RowRefused(TargetRefused):
    """A constraint, column or type of a target refuses a row."""

    targets: tuple[str, ...]
    """Those that it may be."""
    names: dict[str, str]
    """Of the constraint, the column, the type and the table, as far as the server tells."""
    sqlstate: str
    condition: str
    """The SQLSTATE's name."""

    @property
    def guard(self) -> str:
        """What refuses, as a dead letter's detail has it."""
        named = ", ".join(f"{kind} {name}" for kind, name in self.names.items()) or "a value"
        return f"{named} (SQLSTATE {self.sqlstate} {self.condition})"

    def __str__(self) -> str:
        return (
            f"{' or '.join(self.targets)} refuses a row of the batch: {self.guard}; nothing of the"
            " batch is published. Correct the rows in the transform, or change the table, then run"
            " again"
        )


class RowsNotPrepared(TargetRefused):
    """Rows are refused before they go in, though none of them is refused alone."""

    target: str
    guard: str
    """See `RowRefused`."""

    def __str__(self) -> str:
        return (
            f"{self.target} refuses rows of the batch, though none of them alone: {self.guard};"
            " nothing of the batch is published. Correct the rows in the transform, or change the"
            " table, then run again"
        )


class RefusedRowsOfNoRecord(TargetRefused):
    """Refused rows can't become dead letters: their coordinates are of no record of the batch."""

    guard: str
    """What refuses the first."""
    rows: int

    def __str__(self) -> str:
        return (
            f"rows of the batch are refused, first by {self.guard}; they can't become dead letters:"
            f" {_PLACE} of {self.rows} of them are not those of a record of the batch. Nothing"
            " is published. Keep these columns unchanged in the transform, then run again"
        )


class RefusedRowsNotAllFound(TargetRefused):
    """The search for the rows that are refused takes too long."""

    targets: tuple[str, ...]
    found: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{' or '.join(self.targets)} refuses rows of the batch: {self.found} records were"
            f" found in {self.seconds:.0f} s and the search is not finished; nothing is published."
            " Correct the rows in the transform, change the table, or lower batch.max_records, then"
            " run again"
        )


class TargetKeptRowsOut(TargetRefused):
    """A trigger or a rule of the target keeps staged rows out, without a word."""

    target: str
    staged: int
    moved: int
    by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.staged - self.moved} of {self.staged} staged rows did not reach {self.target}:"
            f" {_named(self.by)} dropped them; nothing of the batch is published. Filter such rows"
            " in the transform, or change the trigger (RETURN NEW lets a row in), then run again"
        )


# What is sent to an output topic.


class OutputKeyMissing(Refused):
    """The target lacks columns that the key of what is sent names."""

    target: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.target} has no column {', '.join(self.missing)}, which output.key names:"
            " correct it, or let the transform return the column"
        )


class RowsToSendDiffer(Refused):
    """The rows of a batch that are to be sent are not as many as were published."""

    region: str
    seq: int
    target: str
    published: int
    found: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: batch {self.seq} published {self.published} changes of rows of"
            f" {self.target}, and {self.found} are there to be sent: somebody else deleted or"
            " inserted rows, or made the table anew. Nothing of the batch was sent. `tidemark"
            " verify` names the rows: correct them, or rewind to the checkpoint before. If its"
            f" consumers can miss them, `tidemark withhold {self.region} {self.seq}` lets it pass"
        )


# A rewind.


class TargetHasNoSeq(Refused):
    """The target does not say of which batch its rows are."""

    target: str

    def __str__(self) -> str:
        return (
            f"{self.target} has no column {BATCH_SEQ}: so the rows after a checkpoint are unknown,"
            " and none can be removed. Restore the column with its values"
        )


class RowsMayNotBeDeleted(Refused):
    """The role may not delete rows of the target."""

    target: str

    def __str__(self) -> str:
        return (
            f"{self.target}: this role may not delete rows, but a rewind has to; grant"
            " DELETE on the table (docs/administration.md)"
        )


class TargetKeepsRows(TargetRefused):
    """A trigger or a rule of the target keeps rows that are to be removed."""

    target: str
    removed: int
    left: int
    by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.removed} rows were deleted and {self.left} are still there:"
            f" {_named(self.by)} keeps them. Nothing was removed. Let it return OLD, or disable it"
            " for the rewind, then rewind again"
        )


class UpsertTargetLacksColumns(Refused):
    """The target lacks columns of the key, or the one that names a row's batch."""

    target: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.target} has no column {', '.join(self.missing)}. Restore it with its values"


class KeptRowsPruned(Refused):
    """What keys were before a checkpoint is no longer kept."""

    region: str
    target: str
    oldest_seq: int
    """The oldest checkpoint that a rewind reaches."""

    def __str__(self) -> str:
        return (
            f"region {self.region}: what the keys of {self.target} were before checkpoint"
            f" {self.oldest_seq} was pruned, so no rewind goes back behind it. Nothing was changed."
            f" Rewind to {self.oldest_seq} or later; or fill another table by a new region"
        )


class PublishedOtherwiseBefore(Refused):
    """Batches that would be taken back together were published in different ways."""

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


class KeysChangedByOthers(Refused):
    """Keys are not as batches left them."""

    target: str
    after_seq: int
    keys: int

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.keys} keys that batches after {self.after_seq} changed are not"
            " as these left them: somebody else deleted or changed their rows. Nothing was"
            " changed. `tidemark verify` names the rows; put them right, or rewind to a newer"
            " checkpoint"
        )


class KeptRowsHaveOtherColumns(Refused):
    """The target lost columns and got some since rows were kept: one may have been renamed."""

    target: str
    lost: tuple[str, ...]
    got: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.target} has lost the columns {', '.join(self.lost)} and got"
            f" {', '.join(self.got)} since rows were kept for a rewind; whether one was renamed"
            " nobody can tell, and its values would stay as they are. Nothing was changed. Give"
            " each its old name for the rewind, or rewind to a newer checkpoint"
        )


def _acting(found: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"foreign key {quoted(name)} of {table}" for table, name in found)


class KeysInTheWay(TargetRefused):
    """Keys can be put back together alone, and a foreign key would change rows of another table."""

    target: str
    guard: str
    """What of the target refuses them one after the other."""
    acting: tuple[tuple[str, str], ...]
    """Tables with their foreign keys."""

    def __str__(self) -> str:
        return (
            f"{self.target}: keys can't be put back one after the other ({self.guard}), and if"
            f" their rows were deleted first, {_acting(self.acting)} would delete or change others."
            " Nothing was"
            " changed. Make the constraint that refuses them DEFERRABLE (ALTER TABLE … DROP"
            " CONSTRAINT …, ADD UNIQUE (…) DEFERRABLE), then rewind again"
        )


class KeysRenumbered(TargetRefused):
    """Rows would be deleted to have their old numbers, and a foreign key would change others."""

    target: str
    keys: int
    acting: tuple[tuple[str, str], ...]
    """See `KeysInTheWay`."""

    def __str__(self) -> str:
        return (
            f"{self.target}: {amount(self.keys, 'key')} came back with another number (GENERATED"
            " ALWAYS AS IDENTITY). To have the old one a row must be deleted, and"
            f" {_acting(self.acting)} would delete or change others. Nothing was changed. Let the"
            " number be written (ALTER TABLE … ALTER … SET GENERATED BY DEFAULT), then rewind again"
        )


class ReplacedRowsReferred(TargetRefused):
    """Rows of a batch would be deleted to be made anew, and a foreign key would change others."""

    target: str
    seq: int
    acting: tuple[tuple[str, str], ...]
    """See `KeysInTheWay`."""

    def __str__(self) -> str:
        return (
            f"{self.target}: the rows of batch {self.seq} would be deleted and made anew, and"
            f" {_acting(self.acting)} would delete or change others with them, which do not come"
            " back. Nothing was changed. Drop the foreign key for the replay, or rewind"
        )


class KeysNotPutBack(TargetRefused):
    """A trigger or a rule of the target keeps keys from being what they were."""

    target: str
    left: int
    """Rows of later batches."""
    missing: int
    """Rows that did not come back."""
    by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.left} rows are still of later batches and {self.missing} were"
            f" not put back, because of {_named(self.by)}. Nothing was changed. Disable it for the"
            " rewind, then rewind again"
        )
