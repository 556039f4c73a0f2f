"""Changes: what differs from the settings and the tables that a checkpoint was made with."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from tidemark.errors import Refused
from tidemark.model.output import LETTERS_TOPIC, OUTPUT_TOPIC
from tidemark.model.state import RegionState
from tidemark.protocol.ports import KnownRegion

OF_OUTPUT = ("output.", LETTERS_TOPIC)


def check_targets(state: RegionState, targets: Mapping[str, str]) -> None:
    """Stop where the names or tables of the targets are not those of the checkpoint.

    Raises:
        Refused: with both.
    """
    known = {name: one.table for name, one in state.targets.items()}
    if state.head_seq and known != targets:
        raise Refused(
            f"region {state.region} has target {_told(known)}, the pipeline says {_told(targets)}."
            " A region with a checkpoint keeps its target: use a new region for another one. If the"
            " same table has a new name, `tidemark region move` carries the region over"
        )


def _told(targets: Mapping[str, str]) -> str:
    """The tables, with their names where they have one, in the order of these."""
    named = sorted(targets.items())
    return ", ".join(f"{name}: {table}" if name else table for name, table in named)


class Tables(Protocol):
    """The targets of an open that takes new columns."""

    def fit(self, tx: Any) -> None:
        """Give them what they lack, in the open's own transaction, or refuse."""


def changes(
    tx: KnownRegion,
    fingerprint: Mapping[str, Any],
    targets: Mapping[str, str],
    added: Collection[str] = (),
) -> Iterator[str]:
    """Each setting that differs from the checkpoint's, and each target that is another table.

    But for those `added`, where the checkpoint has none of that name.
    """
    yield from _changed_fields(tx.state, fingerprint, added)
    if not tx.state.head_seq:
        return
    for name, table in targets.items():
        known, found = tx.state.targets.get(name), tx.target_oid(table)
        if known and known.oid is not None and found != known.oid:
            now = "is not there" if found is None else f"has {found}"
            yield (
                f"target.table {table} had oid {known.oid} and {now}: it was renamed, dropped or"
                " made anew, or the database was restored from a dump, which gives tables new oids"
            )


def _changed_fields(
    state: RegionState, now: Mapping[str, Any], added: Collection[str]
) -> Iterator[str]:
    """Each field of the fingerprint that differs, with both values; none without a checkpoint."""
    known = state.fingerprint
    if not known or not now or not state.head_seq:
        return
    for name, text in differing(known, now).items():
        is_new_output = name.startswith(OF_OUTPUT) and not {OUTPUT_TOPIC, LETTERS_TOPIC} & {*known}
        is_added = name in added and name not in known
        if not is_added and not is_new_output:  # output.start is asked for a new output
            yield text


def differing(known: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """What of two fingerprints differs, by name, with both values."""
    return {
        name: f"{name} was {known.get(name)!r} and is {now.get(name)!r}"
        for name in sorted({*known, *now})
        if known.get(name) != now.get(name)
    }


def check_member(
    state: RegionState, fingerprint: Mapping[str, Any], targets: Mapping[str, str], group_id: str
) -> None:
    """Stop a member whose settings are not those that its run was opened with.

    An open writes them in the transaction that takes its epoch. Others need another open, whose
    epoch fences the member: whatever it found here holds as long as it may write.

    Raises:
        Refused: with each difference.
    """
    tables = {name: one.table for name, one in state.targets.items()}
    known = state.fingerprint | {"kafka.group": state.group_id, "target": _told(tables)}
    now = {**fingerprint, "kafka.group": group_id, "target": _told(targets)}
    if found := differing(known, now):
        raise Refused(
            f"region {state.region}: {'; '.join(found.values())} since the run of epoch"
            f" {state.epoch} was opened. This member read nothing. Restore the file, or start a"
            " new run: it asks whether the change is meant"
        )
