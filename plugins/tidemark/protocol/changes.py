"""Changes: what differs from the settings and the table that a checkpoint was made with."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidemark.model.state import RegionState
from tidemark.protocol.ports import KnownRegion


def changes(tx: KnownRegion, fingerprint: Mapping[str, Any], target: str) -> Iterator[str]:
    """Each setting that differs from the checkpoint's, and a target that is another table."""
    yield from _changed_fields(tx.state, fingerprint)
    known, found = tx.state.target_oid, tx.target_oid(target)
    if tx.state.head_seq and known is not None and found != known:
        now = "is not there" if found is None else f"has {found}"
        yield (
            f"target.table {target} had oid {known} and {now}: it was renamed, dropped or"
            " made anew, or the database was restored from a dump, which gives tables new oids"
        )


def _changed_fields(state: RegionState, now: Mapping[str, Any]) -> Iterator[str]:
    """Each field of the fingerprint that differs, with both values; none without a checkpoint."""
    known = state.fingerprint
    if not known or not now or not state.head_seq:
        return
    for name in sorted({*known, *now}):
        if known.get(name) != now.get(name):
            yield f"{name} was {known.get(name)!r} and is {now.get(name)!r}"
