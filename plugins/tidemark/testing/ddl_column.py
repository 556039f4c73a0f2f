"""A column of a table as its CREATE TABLE says it, in the words of Postgres' catalog."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidemark.staging.catalog import TableColumn
from tidemark.staging.target import Target
from tidemark.testing.errors import DdlPartNotJudged

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
