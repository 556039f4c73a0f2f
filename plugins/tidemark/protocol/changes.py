"""Changes: what differs from the settings and the tables that a checkpoint was made with."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidemark.errors import Refused
from tidemark.model.output import OUTPUT_TOPIC
from tidemark.model.state import RegionState
from tidemark.protocol.ports import KnownRegion


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
    """The tables, with their names where they have one."""
    return ", ".join(f"{name}: {table}" if name else table for name, table in targets.items())


def changes(
    tx: KnownRegion, fingerprint: Mapping[str, Any], targets: Mapping[str, str]
) -> Iterator[str]:
    """Each setting that differs from the checkpoint's, and each target that is another table."""
    yield from _changed_fields(tx.state, fingerprint)
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


def _changed_fields(state: RegionState, now: Mapping[str, Any]) -> Iterator[str]:
    """Each field of the fingerprint that differs, with both values; none without a checkpoint."""
    known = state.fingerprint
    if not known or not now or not state.head_seq:
        return
    for name in sorted({*known, *now}):
        is_new_output = name.startswith("output.") and OUTPUT_TOPIC not in known
        if known.get(name) != now.get(name) and not is_new_output:  # output.start is asked for that
            yield f"{name} was {known.get(name)!r} and is {now.get(name)!r}"
