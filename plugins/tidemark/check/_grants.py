"""The rights on tables and views of the ledger that its roles need, as docs/roles.md has them."""

from collections.abc import Mapping, Sequence

from tidemark.ledger.migrate import SCHEMAS
from tidemark.postgres.session import Cursor, query

Needs = Mapping[str, Sequence[str]]
"""The rights by table, and those on all others under no name."""
Missing = Mapping[tuple[str, ...], list[str]]
"""The tables that lack these rights."""

WORKER: Needs = {
    "": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "actions": ("SELECT", "INSERT"),  # what a person did stays on record
    "alembic_version": ("SELECT",),
}
READER: Needs = {"": ("SELECT",), "doorbells": ("SELECT", "INSERT", "UPDATE")}


def missing_rights(cursor: Cursor, needs: Needs, kinds: Sequence[str]) -> Missing:
    """What the session's role lacks of these, of the ledger's tables (kind r) or views (v)."""
    cursor.execute(query("missing_table_rights"), {"rights": [*WORKER[""]], "kinds": [*kinds]})
    found: dict[tuple[str, ...], list[str]] = {}
    for table, lacked in cursor.fetchall():
        needed = needs.get(table, needs[""])
        if missing := tuple(right for right in lacked if right in needed):
            found.setdefault(missing, []).append(table)
    return found


def named(missing: Missing) -> str:
    """The rights with their tables, for people."""
    return "; ".join(f"{', '.join(some)} on {', '.join(of)}" for some, of in missing.items())


def granting(missing: Missing, user: str) -> str:
    """The statements that give the role what it lacks."""
    return "; ".join(
        f'GRANT {", ".join(some)} ON {", ".join(f"{SCHEMAS[0]}.{one}" for one in of)} TO "{user}"'
        for some, of in missing.items()
    )
