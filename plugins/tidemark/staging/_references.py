"""Foreign keys between the targets of a region: parents get their rows before children."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from psycopg2 import sql

from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor, query
from tidemark.staging.catalog import find_acting
from tidemark.staging.errors import ForeignKeyActs, ForeignKeyNotDeferrable, ForeignKeysInCircle
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key from one target to another, or to itself."""

    constraint: str
    child: Target
    parent: Target
    columns: list[str]
    """Of the parent."""
    is_deferrable: bool
    acts: bool
    """It deletes or changes rows of the child by itself: cascade, set null, set default."""

    @property
    def is_own(self) -> bool:
        return self.child == self.parent


def parents_first(cursor: Cursor, targets: Sequence[Target]) -> list[Target]:
    """The targets in an order in which no row comes before the one that it refers to.

    Foreign keys that may be deferred need no order.

    Raises:
        Refused: the others form a circle; or one changes rows by itself, which nobody would count.
    """
    return _in_order(find_references(cursor, targets), targets)


def _in_order(found: Sequence[Reference], targets: Sequence[Target]) -> list[Target]:
    references = [one for one in found if not one.is_own]
    for one in references:
        _refuse_acting(one)
    strict = [one for one in references if not one.is_deferrable]
    order = TopologicalSorter[Target](dict.fromkeys(targets, ()))
    for one in strict:
        order.add(one.child, one.parent)
    try:
        return list(order.static_order())
    except CycleError:
        keys = tuple((str(one.child), one.constraint) for one in strict)
        raise ForeignKeysInCircle(foreign_keys=keys) from None


def refuse_unfit_references(
    cursor: Cursor, targets: Sequence[Target], upserts: Mapping[str, Upsert]
) -> None:
    """Refuse foreign keys with which the targets can't be moved, or taken back, together.

    One of a target to itself need not wait: rows go in, and come back, in an order that it takes.

    `upserts` are those of targets whose rows a batch may change, by name.
    """
    references = find_references(cursor, targets)
    _in_order(references, targets)
    for one in references:
        if not _may_change(one, upserts.get(one.parent.name)):
            continue
        _refuse_acting(one)
        if not (one.is_deferrable or one.is_own):
            raise ForeignKeyNotDeferrable(
                constraint=one.constraint, child=str(one.child), parent=str(one.parent)
            )


def _refuse_acting(reference: Reference) -> None:
    if reference.acts:
        raise ForeignKeyActs(
            constraint=reference.constraint,
            child=str(reference.child),
            parent=str(reference.parent),
        )


def _may_change(reference: Reference, upsert: Upsert | None) -> bool:
    """Whether a batch may delete what is referred to, or give it another value."""
    return bool(upsert and (upsert.deleted or not {*reference.columns} <= {*upsert.key}))


def find_acting_keys(cursor: Cursor, target: Target) -> tuple[tuple[str, str], ...]:
    """Tables, with their foreign keys, that change rows by themselves if one of the target goes."""
    found = find_acting(cursor, target.schema, target.table)
    return tuple((str(Target(schema, table)), name) for schema, table, name in found)


def find_references(cursor: Cursor, targets: Sequence[Target]) -> list[Reference]:
    """The foreign keys between these tables; a table that is not there has none.

    One of a single partition is not seen.
    """
    tables = [sql.Identifier(one.schema, one.table).as_string(cursor) for one in targets]
    cursor.execute(query("find_references"), {"tables": tables})
    return [
        Reference(name, targets[child], targets[parent], *facts)
        for name, child, parent, *facts in cursor.fetchall()
    ]
