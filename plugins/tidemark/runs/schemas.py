"""The columns of `schema: registry`: an open takes them, the ledger keeps them for all others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemark.ledger.ledger import Ledger
from tidemark.model.state import RegionState
from tidemark.runs.errors import ColumnsNotKept, FieldsWithoutType
from tidemark.settings.endpoints import Connections
from tidemark.settings.format import FormatSettings, OnNewField
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import (
    RegisteredColumns,
    kept_columns,
    registered,
    subject_of,
    with_columns,
)

if TYPE_CHECKING:
    from tidemark.decode.registry_columns import NewestSchema


@dataclass(frozen=True, slots=True)
class Evolved:
    """A pipeline with the columns that its rows will have, from the newest schemas."""

    pipeline: Pipeline
    added: frozenset[str] = frozenset()
    """Columns that are new to the checkpoint and that the file lets an open add, as the fingerprint
    names them."""
    remarks: tuple[str, ...] = ()
    """What of the newest schemas is added, and what is passed over."""


def kept(pipeline: Pipeline, state: RegionState) -> Pipeline:
    """The pipeline with the columns that the region's newest open has kept; no registry is asked.

    Raises:
        Refused: it kept none, for the file said something else then.
    """
    columns = {name: kept_columns(state.fingerprint, name) for name in registered(pipeline)}
    for section, found in columns.items():
        if not found.fields:
            raise ColumnsNotKept(region=state.region, section=section)
    return with_columns(pipeline, columns) if columns else pipeline


def evolved(pipeline: Pipeline, registries: Connections, state: RegionState | None) -> Evolved:
    """The pipeline with the columns of the newest schemas, asked for now.

    An open asks after it has read where Kafka's logs end: writers register a schema before they
    write with it, so no record of the run has fields that are newer. The columns that a
    checkpoint was made with come first, in their order. What of them the newest schema
    changed or lacks is a change of settings, for the open to judge.

    Raises:
        Unreachable: a registry does not answer.
        InvalidSettings: it knows no such subject, or what that has can't be columns.
    """
    columns, added, remarks = {}, set[str](), list[str]()
    for section, part in registered(pipeline).items():
        before = kept_columns(state.fingerprint if state and state.head_seq else {}, section)
        known, found = before.fields, _newest(pipeline, registries, section, before.message)
        fields = _fields(section, part, known, found)
        columns[section] = RegisteredColumns(fields, found.message)
        if known and part.on_new_field is OnNewField.add:
            added |= {f"{section}.schema.{name}" for name in fields if name not in known}
        remarks += _column_remarks(section, known, fields, found)
    if not columns:
        return Evolved(pipeline)
    return Evolved(with_columns(pipeline, columns), frozenset(added), tuple(remarks))


def would_take(pipeline: Pipeline, registries: Connections, ledger: Ledger) -> Pipeline:
    """The pipeline as an open would take it now; raises as `evolved`."""
    return evolved(pipeline, registries, ledger.known_region(pipeline.region)).pipeline


def in_use(pipeline: Pipeline, registries: Connections, ledger: Ledger) -> Pipeline:
    """The pipeline with the columns that the ledger keeps; before a first open as it would take it.

    Raises:
        Unreachable, InvalidSettings: see `evolved`.
    """
    state = ledger.known_region(pipeline.region)
    if state and all(kept_columns(state.fingerprint, name).fields for name in registered(pipeline)):
        return kept(pipeline, state)
    return evolved(pipeline, registries, state).pipeline


def _newest(
    pipeline: Pipeline, registries: Connections, section: str, kept: str | None
) -> "NewestSchema":
    """What a part's subject has; of several messages the one that is named, or was kept."""
    from tidemark.decode.registry import registry_config, registry_of
    from tidemark.decode.registry_columns import Asked, newest

    part = registered(pipeline)[section]
    registry = registry_of(registry_config(registries[part.registry or ""]))
    is_event = section == "decode" and pipeline.decode.is_event
    subject = subject_of(pipeline, section)
    asked = Asked("after" if is_event else None, part.message or kept)
    return newest(registry, str(part.format), subject, asked)


def _fields(
    section: str, part: FormatSettings, known: Mapping[str, str], found: "NewestSchema"
) -> dict[str, str]:
    """The known ones that it has, then its new ones, unless they are passed over."""
    is_closed = bool(known) and part.on_new_field is OnNewField.ignore
    names = [name for name in known if found.fields.get(name)]
    names += [name for name in found.fields if name not in known and not is_closed]
    if odd := tuple(name for name in names if not found.fields[name]):
        raise FieldsWithoutType(section=section, schema=str(found), names=odd)
    return {name: found.fields[name] or "" for name in names}


def _column_remarks(
    section: str, known: Mapping[str, str], fields: Mapping[str, str], found: "NewestSchema"
) -> Iterator[str]:
    if left := [name for name in found.fields if name not in fields]:
        yield f"{section}: {found} has {', '.join(left)}, passed over"
    if new := [f"{name} {kind}" for name, kind in fields.items() if known and name not in known]:
        yield f"{section}: {found} has {', '.join(new)}, taken as new columns"
