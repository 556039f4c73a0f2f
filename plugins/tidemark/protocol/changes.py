"""Changes: what differs from the settings and the tables that a checkpoint was made with."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tidemark.model.output import DEAD_LETTERS_TOPIC, OUTPUT_TOPIC
from tidemark.model.state import RegionState
from tidemark.protocol.errors import (
    Change,
    ChangedSinceOpen,
    KeyDiffers,
    SettingDiffers,
    TableDiffers,
    TargetsChanged,
    tables_by_name,
)
from tidemark.protocol.ports import LedgerRegion

OF_OUTPUT = ("output.", DEAD_LETTERS_TOPIC)


def refuse_other_targets(state: RegionState, targets: Mapping[str, str]) -> None:
    """Stop where the names or tables of the targets are not those of the checkpoint.

    Raises:
        Refused: with both.
    """
    if state.head_seq and state.tables != targets:
        raise TargetsChanged(region=state.region, known=state.tables, given=targets)


def changes(
    tx: LedgerRegion,
    fingerprint: Mapping[str, Any],
    targets: Mapping[str, str],
    added: Collection[str] = (),
) -> Iterator[Change]:
    """Each setting, target's table and key's text that differs from the checkpoint's.

    But for settings `added`, where the checkpoint has none of that name.
    """
    yield from _changed_fields(tx.state, fingerprint, added)
    if not tx.state.head_seq:
        return
    for name, table in targets.items():
        known, found = tx.state.targets.get(name), tx.target_oid(table)
        if known and known.oid is not None and found != known.oid:
            yield TableDiffers(table, known.oid, found)
        if known and known.key_forms:
            yield from _changed_keys(table, known.key_forms, tx.key_forms(table, known.key_forms))


def _changed_keys(
    table: str, known: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[KeyDiffers]:
    """Each column of a key with other texts; one that is gone is no key that a publish takes."""
    for column, form in known.items():
        if found.get(column, form) != form:
            yield KeyDiffers(table, column, form, found[column])


def _changed_fields(
    state: RegionState, now: Mapping[str, Any], added: Collection[str]
) -> Iterator[SettingDiffers]:
    """Each field of the fingerprint that differs, with both values; none without a checkpoint."""
    known = state.fingerprint
    if not known or not now or not state.head_seq:
        return
    had_output = not {OUTPUT_TOPIC, DEAD_LETTERS_TOPIC}.isdisjoint(known)
    for one in differing(known, now):
        is_new_output = one.name.startswith(OF_OUTPUT) and not had_output
        is_added = one.name in added and one.name not in known
        if not is_added and not is_new_output:  # output.start is asked for a new output
            yield one


def differing(known: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[SettingDiffers, ...]:
    """What of two fingerprints differs, in the order of the names."""
    return tuple(
        SettingDiffers(name, known.get(name), now.get(name))
        for name in sorted({*known, *now})
        if known.get(name) != now.get(name)
    )


def refuse_other_settings(
    state: RegionState, fingerprint: Mapping[str, Any], targets: Mapping[str, str], group_id: str
) -> None:
    """Stop a member whose settings are not those that its run was opened with.

    An open writes them in the transaction that takes its epoch. Others need another open, whose
    epoch fences the member: whatever it found here holds as long as it may write.

    Raises:
        Refused: with each difference.
    """
    target = tables_by_name(state.tables)
    known = state.fingerprint | {"kafka.group": state.group_id, "target": target}
    now = {**fingerprint, "kafka.group": group_id, "target": tables_by_name(targets)}
    if found := differing(known, now):
        raise ChangedSinceOpen(region=state.region, epoch=state.epoch, changes=found)
