"""The target's part of `tidemark check`."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Engine

from tidemark.cli.findings import Doubtful, Finding, Wrong, finding
from tidemark.postgres.transaction import autocommit
from tidemark.staging.catalog import (
    TableRights,
    find_interfering,
    find_relation,
    find_rights,
    find_table_rights,
)
from tidemark.staging.target import Target, refuse_unfit_table


def target_findings(engine: Engine, target: Target) -> Iterator[Finding]:
    """Whether the target can be made or written, what guards it, and whether rewinds may remove."""
    rights: list[_Rights] = []
    yield finding(f"target {target}", lambda: _target(engine, target, rights))
    for right in rights:
        yield finding("target's guards", lambda: _guards(engine, target))
        yield finding("rewinds", lambda right=right: right.to_rewind(target))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class _Rights:
    """What the role may do with the target."""

    user: str
    on: TableRights

    def to_insert(self, target: Target) -> str:
        if not self.on.insert:
            raise Wrong(f"{self.user} may not insert", f'GRANT INSERT ON {target} TO "{self.user}"')
        return "may insert" + ("" if self.on.select else "; tidemark verify also needs SELECT")

    def to_rewind(self, target: Target) -> str:
        asked = {"SELECT": self.on.select, "DELETE": self.on.delete}
        missing = ", ".join(name for name, granted in asked.items() if not granted)
        if missing:
            raise Doubtful(
                f"{self.user} lacks {missing} on {target}: runs work, a rewind will be refused",
                f'GRANT {missing} ON {target} TO "{self.user}"',
            )
        return "may remove rows: tidemark reset --to"


def _guards(engine: Engine, target: Target) -> str:
    """What of the table could keep rows out, hide them, or keep them from a rewind."""
    with autocommit(engine) as cursor:
        relation = find_relation(cursor, target.schema, target.table)
        found = {
            event: find_interfering(cursor, target.schema, target.table, event)
            for event in ("INSERT", "DELETE")
        }
        if relation is not None:
            refuse_unfit_table(cursor, target, relation)
    told = [f"{name} (BEFORE {event})" for event, names in found.items() for name in names]
    if told:
        raise Doubtful(
            f"{', '.join(told)} may keep rows: a run or a rewind that meets one ends as"
            " TARGET_REFUSED",
            "nothing, if it returns NEW on INSERT and OLD on DELETE for every row",
        )
    return "no row security, trigger or rule that could keep rows"


def _target(engine: Engine, target: Target, rights: list[_Rights]) -> str:
    with autocommit(engine) as cursor:
        relation = find_relation(cursor, target.schema, target.table)
        found = find_rights(cursor, target.schema)
        if relation is not None and relation.schema_is_usable:
            table = find_table_rights(cursor, target.schema, target.table)
            rights.append(_Rights(found.user, table))
            return rights[0].to_insert(target)
    if found.create is None:
        raise Wrong(
            f"schema {target.schema} does not exist",
            f'CREATE SCHEMA "{target.schema}" AUTHORIZATION "{found.user}"',
        )
    if not found.usage or not (found.create or relation):
        needed = "USAGE" if relation else "USAGE, CREATE"
        raise Wrong(
            f"{found.user} may not {'use' if relation else 'create it in'} schema {target.schema}",
            f'GRANT {needed} ON SCHEMA "{target.schema}" TO "{found.user}"',
        )
    return "not there yet; the first run makes it from the transform's columns"
