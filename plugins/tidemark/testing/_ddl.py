"""Whether a pipeline's rows fit the table that a DDL makes; no server is asked.

A table is what its CREATE TABLE says, in the words of Postgres' catalog. What can't be judged
without a server is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.errors import InvalidSettings, SchemaMismatch, packages_of
from tidemark.model.upsert import Upsert
from tidemark.runs.targets import movers_of, needed_of
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.target import OnNewColumn
from tidemark.spark.cluster import find_project
from tidemark.spark.sample import transformed_sample
from tidemark.spark.specs import columns_given
from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import Column
from tidemark.staging.fit import differences, quoted
from tidemark.staging.keyed import refuse_unfit, refuse_unfit_types, stored
from tidemark.staging.mover import Mover, but
from tidemark.staging.refused import COORDINATES, refuse_without_coordinates
from tidemark.staging.target import Target
from tidemark.testing._transform import refuse_registered, spark_session
from tidemark.testing.errors import (
    DdlNotJudged,
    DdlPartNotJudged,
    DdlTypesUnknown,
    DdlUnreadable,
    DdlWithoutTable,
)

if TYPE_CHECKING:
    from sqlglot import exp


PARSES_TEXT = (
    "uuid", "inet", "cidr", "macaddr", "macaddr8", "json", "jsonb", "citext", "int4range",
    "int8range", "numrange", "int4multirange", "int8multirange", "nummultirange",
)  # fmt: skip
"""As find_columns.sql has them: a cast makes a value of every text, or refuses it."""

_NAMES = {
    "bigint": "bigint", "int": "integer", "smallint": "smallint", "text": "text", "real": "real",
    "double precision": "double precision", "boolean": "boolean", "bytea": "bytea", "date": "date",
    "decimal": "numeric", "varchar": "character varying", "char": "character(1)",
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
    "time": "time without time zone", "interval": "interval", "xml": "xml",
    **{name: name for name in PARSES_TEXT},
}  # fmt: skip
"""As sqlglot writes a type: as Postgres' format_type does."""

_SIZED = {
    "decimal": "numeric({})", "varchar": "character varying({})", "char": "character({})",
    "timestamp": "timestamp({}) without time zone", "timestamptz": "timestamp({}) with time zone",
}  # fmt: skip
_CONSTRAINTS = {
    "NotNullColumnConstraint", "DefaultColumnConstraint", "GeneratedAsIdentityColumnConstraint",
    "ComputedColumnConstraint", "PrimaryKeyColumnConstraint", "UniqueColumnConstraint",
    "CheckColumnConstraint", "CollateColumnConstraint", "Reference",
}  # fmt: skip
"""What a column may say that is judged, or that does not matter here."""

_SERIAL = {"serial": "int", "bigserial": "bigint", "smallserial": "smallint"}


def column_of(part: "exp.ColumnDef", primary: Mapping[str, str], target: Target) -> TableColumn:
    """The column; `primary` is the primary key's name by its columns.

    Raises:
        InvalidSettings: it says what can't be judged without a server.
    """
    name, kinds = name_of(part.this), {type(c.kind).__name__: c.kind for c in part.constraints}
    identity = kinds.get("GeneratedAsIdentityColumnConstraint")
    is_computed = identity and identity.args.get("expression")  # of a version's own kind
    if is_computed or not kinds.keys() <= _CONSTRAINTS:
        raise unjudged(target, part)
    stated = part.args["kind"].sql("postgres").lower() if part.args.get("kind") else ""
    plain = _SERIAL.get(stated, stated)
    computed = kinds.get("ComputedColumnConstraint")
    default = kinds.get("DefaultColumnConstraint")
    not_null = kinds.get("NotNullColumnConstraint")
    says_not_null = bool(not_null and not not_null.args.get("allow_null"))
    type_name = _type_name(plain)
    return TableColumn(
        name=name,
        type_name=type_name,
        is_required=says_not_null or bool(identity) or plain != stated or name in primary,
        has_default=plain != stated or bool(default and default.this.sql() != "NULL"),
        identity=("a" if identity.args.get("this") else "d") if identity else "",
        generated="s" if computed else "",
        is_writable=True,
        primary_key=primary.get(name),
        parses_text=type_name.removesuffix("[]") in PARSES_TEXT,
    )


def _type_name(stated: str) -> str:
    """As format_type spells it; one that is not known here begins with a question mark."""
    match = re.fullmatch(r"([a-z0-9 ]+?)(?:\((\d+)(?:, (\d+))?\))?((?:\[\d*\])*)", stated)
    if match is None:
        return f"?{stated}"
    name, precision, scale, array = match.groups()
    suffix = "[]" if array else ""
    if precision is None:
        return _NAMES.get(name, f"?{name}") + suffix
    size = f"{precision},{scale or 0}" if name == "decimal" else precision
    with suppress(KeyError):
        return _SIZED[name].format(size) + suffix
    return f"?{stated}"


def name_of(identifier: "exp.Identifier") -> str:
    """As SQL takes it: in small letters, unless it is quoted."""
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()


def unjudged(target: Target, part: Any) -> DdlPartNotJudged:
    """The error of a part that only a server can judge."""
    return DdlPartNotJudged(target=str(target), part=part.sql("postgres")[:80])


@dataclass(frozen=True, slots=True)
class DdlTable:
    """The table of a target."""

    columns: Sequence[TableColumn]
    unique: Sequence[frozenset[str]]
    """The columns of each unique index that ON CONFLICT can use."""
    is_unlogged: bool = False
    unknown: frozenset[str] = frozenset()
    """Columns whose type is not known here."""


def statements_of(ddl: str) -> Sequence[Any]:
    """The statements of a text.

    Raises:
        MissingExtra: sqlglot is missing.
        DdlUnreadable: it can't read it.
    """
    with packages_of("testing", "a check of DDL"):
        import sqlglot
        from sqlglot.errors import SqlglotError
    try:
        return [one for one in sqlglot.parse(ddl, dialect="postgres") if one]
    except SqlglotError as error:
        [first, *_] = str(error).splitlines()
        raise DdlUnreadable(cause=first) from error


def table_of(statements: Sequence[Any], target: Target) -> DdlTable:
    """The target's table.

    Raises:
        InvalidSettings: none of the statements makes it, or it says what can't be judged here.
    """
    from sqlglot import exp

    made = [one for one in statements if isinstance(one, exp.Create) and _makes(one, target)]
    if len(made) != 1:
        raise DdlWithoutTable(target=str(target), statements=len(made))
    for one in statements:
        if isinstance(one, exp.Alter | exp.Command) and target.table in one.sql("postgres"):
            raise DdlNotJudged(statement=one.sql("postgres")[:80])
    return _table(made[0], target, [*_indexes(statements, target)])


def _makes(create: "exp.Create", target: Target) -> bool:
    return create.kind == "TABLE" and _is(create.this, target)


def _is(named: Any, target: Target) -> bool:
    """Whether it names the target; a name without a schema is one of public."""
    from sqlglot import exp

    table = named.find(exp.Table)
    if table is None:
        return False
    schema = name_of(table.args["db"]) if table.args.get("db") else "public"
    return (schema, name_of(table.this)) == (target.schema, target.table)


def _table(create: "exp.Create", target: Target, unique: list[frozenset[str]]) -> DdlTable:
    from sqlglot import exp

    if not isinstance(create.this, exp.Schema):
        raise unjudged(target, create)
    properties = create.args.get("properties")
    found = properties.expressions if properties else []
    for one in found:
        if not isinstance(one, exp.PartitionedByProperty | exp.UnloggedProperty):
            raise unjudged(target, one)
    parts = create.this.expressions
    primary = _primary(parts, target)
    columns = [column_of(one, primary, target) for one in parts if isinstance(one, exp.ColumnDef)]
    unique += [frozenset(primary)] if primary else []
    unique += _unique(parts, target)
    unknown = frozenset(one.name for one in columns if one.type_name.startswith("?"))
    unlogged = any(isinstance(one, exp.UnloggedProperty) for one in found)
    return DdlTable(columns, unique, unlogged, unknown)


def _primary(parts: Sequence[Any], target: Target) -> dict[str, str]:
    """The name of the primary key by each of its columns."""
    from sqlglot import exp

    usual = f"{target.table}_pkey"
    for part, name in _constraints(parts, usual):
        if isinstance(part, exp.PrimaryKey):
            return dict.fromkeys(map(_of_key, part.expressions), name)
    return {
        name_of(part.this): usual
        for part in parts
        if isinstance(part, exp.ColumnDef)
        and any(isinstance(c.kind, exp.PrimaryKeyColumnConstraint) for c in part.constraints)
    }


def _unique(parts: Sequence[Any], target: Target) -> Iterator[frozenset[str]]:
    """The columns of each UNIQUE, and nothing that can't be judged."""
    from sqlglot import exp

    judged = exp.PrimaryKey | exp.CheckColumnConstraint | exp.ForeignKey
    for part, _ in _constraints(parts, ""):
        if isinstance(part, exp.UniqueColumnConstraint):
            yield frozenset(map(_of_key, part.this.expressions))
        elif isinstance(part, exp.ColumnDef):
            kinds = (one.kind for one in part.constraints)
            if any(isinstance(one, exp.UniqueColumnConstraint) for one in kinds):
                yield frozenset({name_of(part.this)})
        elif not isinstance(part, judged):
            raise unjudged(target, part)


def _constraints(parts: Sequence[Any], usual: str) -> Iterator[tuple[Any, str]]:
    """The parts of a table, those with a name without it; and their names."""
    from sqlglot import exp

    for part in parts:
        if isinstance(part, exp.Constraint):
            yield from ((one, name_of(part.this)) for one in part.expressions)
        else:
            yield part, usual


def _of_key(part: Any) -> str:
    from sqlglot import exp

    return name_of(part if isinstance(part, exp.Identifier) else part.find(exp.Identifier))


def _indexes(statements: Sequence[Any], target: Target) -> Iterator[frozenset[str]]:
    """The columns of each CREATE UNIQUE INDEX that is whole and of columns alone."""
    from sqlglot import exp

    for one in statements:
        if isinstance(one, exp.Create) and one.kind == "INDEX" and one.args.get("unique"):
            params = one.this.args.get("params")
            if _is(one.this, target) and params and not params.args.get("where"):
                columns = [ordered.this for ordered in params.args["columns"]]
                if all(isinstance(column, exp.Column) for column in columns):
                    yield frozenset(map(_of_key, columns))


def ddl_faults(pipeline: str | Path, ddl: str) -> list[str]:
    """Why rows of the pipeline do not fit the tables that the DDL makes; none if they do.

    `ddl` holds the CREATE TABLE of every target, and CREATE UNIQUE INDEX where an upsert needs one.
    Judged are the columns after the transform, by the rules of a run: names, types, NOT NULL,
    GENERATED, the key of an upsert. Not judged are rights, triggers, policies and foreign keys.

    Raises:
        InvalidSettings: the file or the transform can't be used; or the DDL lacks a target's table,
            can't be read, or says what only a server can judge (INHERITS, LIKE, ALTER TABLE, a
            type of one's own).
        TransformFailed, SchemaMismatch: see `run_transform`.
    """
    loaded = Pipeline.load(pipeline)
    refuse_registered(loaded)
    find_project(loaded.project)
    none = pa.Table.from_batches([], columns_given(loaded.decode))
    made = transformed_sample(loaded, none, spark_session)
    movers = movers_of(loaded, {name: rows.schema for name, rows in made.items()}).movers
    statements = statements_of(ddl)
    return [
        f"{mover.target}: {fault}"
        for mover in movers
        for fault in _faults(loaded, mover, table_of(statements, mover.target))
    ]


def _faults(pipeline: Pipeline, mover: Mover, table: DdlTable) -> Iterator[str]:
    if table.is_unlogged:
        yield "it is UNLOGGED: a crash of Postgres would empty it, but not the ledger"
    written = stored(mover.columns, mover.upsert) if mover.upsert else mover.columns
    passed_over = _passed_over(pipeline, mover, table)
    wanted = but(written, passed_over)
    if unknown := sorted(table.unknown & {column.name for column in wanted}):
        raise DdlTypesUnknown(target=str(mover.target), columns=tuple(unknown))
    for one in differences(wanted, table.columns):
        remedy = f" (ALTER TABLE {mover.target} {', '.join(one.actions)};)" if one.actions else ""
        yield f"{quoted(one.column)}: {one.fact}{remedy}"
    yield from _faults_of_mode(mover, wanted, table)


def _passed_over(pipeline: Pipeline, mover: Mover, table: DdlTable) -> frozenset[str]:
    """Columns that the table may lack, because the run adds them or leaves them out."""
    settings = pipeline.all_targets[mover.name]
    if settings.on_new_column is OnNewColumn.refuse:
        return frozenset()
    kept = {*COORDINATES, *needed_of(pipeline, mover.name)} | {
        *(mover.upsert.names if mover.upsert else ())
    }
    must = kept if settings.on_new_column is OnNewColumn.ignore else set()
    known = {own.name for own in table.columns}
    return frozenset(one.name for one in mover.columns if one.name not in known | must)


def _faults_of_mode(mover: Mover, columns: Sequence[Column], table: DdlTable) -> Iterator[str]:
    try:
        if mover.upsert:
            refuse_without_coordinates(columns, "mode: upsert", "mode: append")
            refuse_unfit({one.name: one.postgres_type for one in mover.columns}, mover.upsert)
            known = {own.name: own for own in table.columns}
            if all(name in known for name in mover.upsert.names if name != mover.upsert.deleted):
                refuse_unfit_types(mover.target, known, mover.upsert)
        elif mover.refused_become_dead_letters:
            refuse_without_coordinates(columns, "on_refused: dead_letter", "on_refused: stop")
    except (InvalidSettings, SchemaMismatch) as error:
        yield str(error)
    if mover.upsert and frozenset(mover.upsert.key) not in table.unique:
        yield f"it has no unique index on exactly ({_listed(mover.upsert)}), which an upsert needs"


def _listed(upsert: Upsert) -> str:
    return ", ".join(map(quoted, upsert.key))
