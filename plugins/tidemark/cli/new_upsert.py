"""New upsert: what `--upsert` adds to the pipeline that `tidemark init` writes."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidemark.cli.faults import KeyNoColumn
from tidemark.cli.new_pipeline import NewPipeline
from tidemark.cli.new_texts import table_columns
from tidemark.model.upsert import Upsert
from tidemark.settings.decode import Envelope, Metadata
from tidemark.settings.transform import TransformKind
from tidemark.staging.keyed import refuse_unfit_key_types

if TYPE_CHECKING:
    from tidemark.cli.proposal import Proposal

DELETED = "deleted"
"""The column that an envelope adds."""


def mode(keys: str | None) -> dict[str, Any]:
    """The keys of the section `target` for an upsert by these columns; none: rows are appended."""
    if keys is None:
        return {}
    return {"mode": "upsert", "key": [name.strip() for name in keys.split(",")]}


def upserting(new: NewPipeline, found: "Proposal") -> "tuple[NewPipeline, Proposal]":
    """What is to be written, where rows are upserted; the same where they are appended.

    Of change events a deletion deletes the row. The tombstone behind it becomes a row, too, which a
    transform drops: else each would be a dead letter.

    Raises:
        InvalidSettings: a column of the key is none of the rows', or can't tell rows apart.
    """
    upsert = new.upsert
    if upsert is None:
        return new, found
    if found.decode.get("envelope") == Envelope.debezium:
        upsert = replace(upsert, deleted=DELETED)
        target = {**new.draft["target"], "deleted": DELETED}
        new = replace(
            new,
            draft={**new.draft, "target": target},
            transform=new.transform or TransformKind.arrow,
            drops_tombstones=True,
        )
        found = replace(found, metadata=(str(Metadata.tombstone),))
    _refuse_unfit(new.draft["target"]["table"], found, upsert)
    return new, found


def _refuse_unfit(table: str, found: "Proposal", upsert: Upsert) -> None:
    types = {one.name: one.postgres_type for one in table_columns(found, upsert)}
    if missing := [name for name in upsert.key if name not in types]:
        why = {one.name: one.why for one in found.fields if one.name in missing}
        raise KeyNoColumn(missing=tuple(missing), columns=tuple(types), why=why)
    refuse_unfit_key_types(table, types, upsert.key)
