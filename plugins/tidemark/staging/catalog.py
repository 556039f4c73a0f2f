"""What Postgres says about a table: its kind, our rights, its columns."""

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

_RELATION = """
SELECT relkind, relpersistence, has_schema_privilege(relnamespace, 'USAGE'),
       row_security_active(oid), current_user
FROM pg_catalog.pg_class
WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s)
  AND relname = %(table)s
"""
# a domain counts as the type below it, whose values it holds
_COLUMNS = """
SELECT attribute.attname,
       CASE type.typtype
           WHEN 'd' THEN format_type(type.typbasetype, type.typtypmod)
           ELSE format_type(attribute.atttypid, attribute.atttypmod)
       END,
       attribute.attnotnull,
       (attribute.atthasdef AND attribute.attgenerated = '') OR type.typdefault IS NOT NULL,
       attribute.attidentity,
       attribute.attgenerated,
       has_column_privilege(class.oid, attribute.attnum, 'INSERT'),
       (SELECT conname FROM pg_catalog.pg_constraint
        WHERE conrelid = class.oid AND contype = 'p' AND attribute.attnum = ANY (conkey))
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid
JOIN pg_catalog.pg_type AS type ON type.oid = attribute.atttypid
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
"""
# those that fire in an ordinary session; a partition may have triggers of its own
_INTERFERING = """
WITH parts AS (
    SELECT class.oid FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
), tables AS (
    SELECT oid FROM parts
    UNION SELECT relid FROM parts CROSS JOIN LATERAL pg_partition_tree(parts.oid)
)
SELECT DISTINCT 'trigger', tgname FROM pg_catalog.pg_trigger
WHERE tgrelid IN (SELECT oid FROM tables) AND NOT tgisinternal AND tgenabled IN ('O', 'A')
  AND (tgtype & 1) <> 0 AND (tgtype & 2) <> 0 AND (tgtype & %(trigger)s) <> 0
UNION ALL
SELECT 'rule', rulename FROM pg_catalog.pg_rewrite
WHERE ev_class IN (SELECT oid FROM parts) AND is_instead AND ev_enabled IN ('O', 'A')
  AND ev_type = %(rule)s
ORDER BY 1, 2
"""
_EVENTS = {"INSERT": (4, "3"), "DELETE": (8, "4")}
"""The bit of pg_trigger.tgtype (1 is FOR EACH ROW, 2 BEFORE), and pg_rewrite.ev_type."""

_SCHEMA = """
SELECT current_user, has_schema_privilege(nspname, 'USAGE'), has_schema_privilege(nspname, 'CREATE')
FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_namespace ON nspname = %(schema)s
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or something else of that name."""

    kind: str
    """As pg_class has it: r table, p partitioned table, v view, m materialized view …"""
    persistence: str
    """p permanent, u unlogged, t temporary."""
    schema_is_usable: bool
    has_row_security: bool
    """Whether policies apply to the current user: rows may be hidden from it."""
    user: str


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table as Postgres has it."""

    name: str
    type_name: str
    is_required: bool
    """NOT NULL."""
    has_default: bool
    identity: str
    """a always, d by default, empty: not an identity."""
    generated: str
    """s stored, v virtual, empty: not generated."""
    is_writable: bool
    """Whether the current user may insert it."""
    primary_key: str | None
    """The name of the primary key that it is part of."""

    @property
    def fills_itself(self) -> bool:
        """Whether a row that doesn't name the column can be inserted."""
        return not self.is_required or self.has_default or bool(self.identity or self.generated)


@dataclass(frozen=True, slots=True)
class SchemaRights:
    """Who we are and what we may do in a schema; None where the schema doesn't exist."""

    user: str
    usage: bool | None
    create: bool | None


def find_relation(cursor: Cursor, schema: str, table: str) -> Relation | None:
    """Return what bears the name, None if nothing does."""
    cursor.execute(_RELATION, {"schema": schema, "table": table})
    row = cursor.fetchone()
    return None if row is None else Relation(*row)


def find_interfering(cursor: Cursor, schema: str, table: str, event: str) -> list[str]:
    """`trigger x` and `rule y` of the table that can keep rows from an INSERT or a DELETE."""
    trigger, rule = _EVENTS[event]
    values = {"schema": schema, "table": table, "trigger": trigger, "rule": rule}
    cursor.execute(_INTERFERING, values)
    return [f"{kind} {name}" for kind, name in cursor.fetchall()]


def find_columns(cursor: Cursor, schema: str, table: str) -> list[TableColumn]:
    """Return the columns in the table's order."""
    cursor.execute(_COLUMNS, {"schema": schema, "table": table})
    return [TableColumn(*row) for row in cursor.fetchall()]


def find_rights(cursor: Cursor, schema: str) -> SchemaRights:
    """Return the current user with its rights in the schema."""
    cursor.execute(_SCHEMA, {"schema": schema})
    user, usage, create = cursor.fetchone() or ("", None, None)
    return SchemaRights(user, usage, create)
