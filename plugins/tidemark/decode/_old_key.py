"""Updates that change a key: the row before is needed, too, for its key is to be deleted."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode.port import OldKey, Reason, Refusal

BEFORE = "before"
_WHOLE_ROWS = (
    "Give the source's table REPLICA IDENTITY FULL (MySQL: binlog_row_image=FULL), or let"
    " target.key be the source's own primary key"
)


def are_changed(wanted: OldKey, before: pa.RecordBatch, after: pa.RecordBatch) -> list[int]:
    """The updates that change one of the columns."""
    changed = pa.array([False] * after.num_rows, pa.bool_())
    for name in wanted.columns:
        changed = pc.or_(changed, _differ(before[name], after[name]))
    return list(pc.indices_nonzero(changed).to_pylist())


def refusals_of(
    wanted: OldKey, before: pa.RecordBatch, changed: Sequence[int]
) -> Iterator[tuple[int, Refusal]]:
    """Of the changed rows those whose old key can't be deleted, each with the reason."""
    if not (wanted.is_key or wanted.is_refused):
        return
    for row in changed:
        unknown = [name for name in wanted.columns if not before[name][row].is_valid]
        if wanted.is_key and unknown:
            yield row, _unknown(unknown[0])
        elif wanted.is_refused:
            yield row, _refused(wanted)


def in_front(
    at: Sequence[int], rows: int, left_out: Collection[int]
) -> tuple[pa.Int64Array, pa.Int64Array]:
    """The places of rows with others in front, which stand behind them all; whose each place is.

    `at` tells in front of which row each of the others belongs; rows are left out with theirs.
    """
    others = {row: rows + number for number, row in enumerate(at)}
    taken, came_from = list[int](), list[int]()
    for row in range(rows):
        if row not in left_out:
            both = [others[row], row] if row in others else [row]
            taken += both
            came_from += [row] * len(both)
    return pa.array(taken, pa.int64()), pa.array(came_from, pa.int64())


def _unknown(name: str) -> Refusal:
    return Refusal(
        Reason.OLD_KEY_UNKNOWN,
        f"the update changes the key, and {BEFORE} has no value of {name}: which row it replaces is"
        f" not known. {_WHOLE_ROWS}",
    )


def _refused(wanted: OldKey) -> Refusal:
    return Refusal(
        Reason.KEY_CHANGED,
        f"the update changes the key ({', '.join(wanted.columns)}): its old key would have to be"
        " deleted, and not every target of the pipeline is upserted with deleted. Give the"
        " upserted table a pipeline of its own",
    )


def _differ(one: pa.Array, other: pa.Array) -> pa.Array:
    """Where the values differ; two nulls don't."""
    if pa.types.is_struct(one.type):
        found = pc.xor(one.is_valid(), other.is_valid())
        for mine, its in zip(one.flatten(), other.flatten(), strict=True):
            found = pc.or_(found, _differ(mine, its))
        return found
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return pa.array([mine != its for mine, its in pairs], pa.bool_())
    is_one_null = pc.xor(one.is_valid(), other.is_valid())
    return pc.or_(is_one_null, pc.fill_null(pc.not_equal(one, other), False))
