"""Foreign keys between the targets of a region: parents get their rows before children."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import Refused
from tidemark.model.upsert import Upsert
from tidemark.postgres.queries import query
from tidemark.staging.fit import quoted
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key from one target to another."""

    constraint: str
    child: Target
    parent: Target
    columns: list[str]
    """Of the parent."""
    is_deferrable: bool
    acts: bool
    """It deletes or changes rows of the child by itself: cascade, set null, set default."""

    @property
    def remedy(self) -> str:
        """What lets rows of the child come before those of the parent, or stay after them."""
        alter = f"ALTER TABLE {self.child} ALTER CONSTRAINT {quoted(self.constraint)} DEFERRABLE;"
        return f"{alter} (one with RESTRICT: make it anew with NO ACTION)"


def parents_first(cursor: Cursor, targets: Sequence[Target]) -> list[Target]:
    """The targets in an order in which no row comes before the one that it refers to.

    Foreign keys that may be deferred need no order.

    Raises:
        Refused: the others form a circle; or one changes rows by itself, which nobody would count.
    """
    references = find_references(cursor, targets)
    for one in references:
        _refuse_acting(one)
    strict = [one for one in references if not one.is_deferrable]
    order = TopologicalSorter[Target](dict.fromkeys(targets, ()))
    for one in strict:
        order.add(one.child, one.parent)
    try:
        return list(order.static_order())
    except CycleError:
        remedies = " or ".join(one.remedy for one in strict)
        raise Refused(
            f"foreign keys between the targets form a circle, so none of them can have its rows"
            f" first; run: {remedies}"
        ) from None


def refuse_unfit(cursor: Cursor, targets: Sequence[Target], upserts: Mapping[str, Upsert]) -> None:
    """Refuse foreign keys with which the targets can't be moved, or taken back, together.

    `upserts` are those of targets whose rows a batch may change, by name.

    Raises:
        Refused: with the statement that helps.
    """
    parents_first(cursor, targets)
    for one in find_references(cursor, targets):
        if not one.is_deferrable and _may_change(one, upserts.get(one.parent.name)):
            raise Refused(
                f"rows of {one.parent} may be deleted or changed together with those of"
                f" {one.child} that refer to them, which foreign key {quoted(one.constraint)} does"
                f" not allow; run: {one.remedy}"
            )


def _refuse_acting(reference: Reference) -> None:
    if reference.acts:
        raise Refused(
            f"foreign key {quoted(reference.constraint)} of {reference.child} changes or deletes"
            f" its rows when {reference.parent} changes: no batch would count these. Make it anew"
            " with ON DELETE NO ACTION ON UPDATE NO ACTION DEFERRABLE"
        )


def _may_change(reference: Reference, upsert: Upsert | None) -> bool:
    """Whether a batch may delete what is referred to, or give it another value."""
    return bool(upsert and (upsert.deleted or not {*reference.columns} <= {*upsert.key}))


def find_references(cursor: Cursor, targets: Sequence[Target]) -> list[Reference]:
    """The foreign keys between different ones of these tables; a table that is not there has none.

    One of a single partition is not seen.
    """
    tables = [sql.Identifier(one.schema, one.table).as_string(cursor) for one in targets]
    cursor.execute(query("find_references"), {"tables": tables})
    return [
        Reference(name, targets[child], targets[parent], *facts)
        for name, child, parent, *facts in cursor.fetchall()
    ]
