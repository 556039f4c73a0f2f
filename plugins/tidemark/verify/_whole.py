"""Checks of the whole target and ledger, not of one batch.

Rows and dead letters lie in the span of their own batch, and all are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg2 import sql
from sqlalchemy import Engine

from tidemark.ledger.queries import LedgerQueries
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import autocommit
from tidemark.staging.catalog import TableColumn, find_columns, find_relation
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.target import Target
from tidemark.verify._multiset import FIRST
from tidemark.verify._scratch import RereadBatches
from tidemark.verify.report import Difference, Kind

# One statement is one snapshot: a publish, prune or rewind meanwhile shows in both rows and ledger,
# or in neither.
_BY_BATCH = sql.SQL("""
WITH oldest AS (SELECT r.oldest_seq AS seq FROM tidemark.regions r WHERE r.region = {region})
SELECT coalesce(b.seq, found.seq), coalesce(found.rows, 0), b.rows,
       (SELECT o.seq FROM oldest o)
FROM (SELECT {batch_seq} AS seq, count(*) AS rows FROM {target} GROUP BY {batch_seq}) AS found
FULL JOIN tidemark.rows_left({region}, {name}, (SELECT o.seq FROM oldest o)) AS b
    ON b.seq = found.seq
ORDER BY 1 NULLS FIRST
""")
_SAMPLE = sql.SQL(
    "SELECT to_jsonb(t.*)::text FROM {target} t WHERE {batch_seq} IS NOT DISTINCT FROM {seq}"
    " LIMIT {first}"
)


@dataclass(frozen=True, slots=True)
class Whole:
    """Rows of the targets by batch, and the faults that belong to no single batch."""

    rows: dict[str, dict[int, tuple[int, int]]]
    """By target, of each batch: those that are there, and those that the ledger counted."""
    differences: tuple[Difference, ...]
    wrong: int
    notes: tuple[str, ...]
    unfit: tuple[str, ...] = ()
    """Each target that does not exist or has no batch_seq: then no batch is compared."""


def whole_of(engine: Engine, region: str, targets: Sequence[Target]) -> Whole:
    """Check that all rows belong to published batches, that spans join, and the head."""
    broken = [*_ledger_faults(LedgerQueries(engine), region)]
    with autocommit(engine) as cursor:
        parts = [_of_target(cursor, region, target) for target in targets]
    return Whole(
        rows={name: rows for part in parts for name, rows in part.rows.items()},
        differences=(*broken, *(one for part in parts for one in part.differences)),
        wrong=len(broken) + sum(part.wrong for part in parts),
        notes=tuple(note for part in parts for note in part.notes),
        unfit=tuple(text for part in parts for text in part.unfit),
    )


def _of_target(cursor: Cursor, region: str, target: Target) -> Whole:
    if find_relation(cursor, target.schema, target.table) is None:
        return _none(cursor, region, target, f"{target} does not exist")
    columns = {own.name: own for own in find_columns(cursor, target.schema, target.table)}
    if BATCH_SEQ not in columns:
        note = f"{target} has no column {BATCH_SEQ}: it is not a table that Tidemark fills"
        return _none(cursor, region, target, note)
    return _whole(cursor, region, target, columns[BATCH_SEQ])


def _none(cursor: Cursor, region: str, target: Target, note: str) -> Whole:
    """None of the rows that the ledger counted are there."""
    cursor.execute(query("counted_rows"), {"region": region, "target": target.name})
    rows = {seq: (0, rows) for seq, rows in cursor.fetchall()}
    return Whole({target.name: rows}, differences=(), wrong=0, notes=(note,), unfit=(note,))


def _whole(cursor: Cursor, region: str, target: Target, batch_seq: TableColumn) -> Whole:
    # literals: if there are parameters, psycopg2 reads a % in a name as a placeholder
    names = {"target": target.identifier, "batch_seq": sql.Identifier(BATCH_SEQ)}
    own = {"region": sql.Literal(region), "name": sql.Literal(target.name)}
    cursor.execute(_BY_BATCH.format(**names, **own))
    rows: dict[int, tuple[int, int]] = {}
    differences, notes, wrong = list[Difference](), list[str](), 0
    pruned = oldest = 0
    for seq, count, counted, oldest in cursor.fetchall():
        if counted is not None:
            rows[seq] = count, counted
        elif seq == 0 and batch_seq.has_default:
            notes.append(f"{count} rows of {target} belong to no batch (batch_seq 0, its default)")
        elif seq is not None and 0 < seq < oldest:
            pruned += count
        else:
            wrong += count
            wanted = {"seq": sql.Literal(seq), "first": sql.Literal(FIRST)}
            cursor.execute(_SAMPLE.format(**names, **wanted))
            differences += [_foreign(seq, count, row) for (row,) in cursor.fetchall()]
    if pruned:
        notes.append(
            f"{pruned} rows of {target} belong to checkpoints before {oldest}, which the"
            " ledger no longer retains"
        )
    return Whole({target.name: rows}, tuple(differences), wrong, tuple(notes))


def _foreign(seq: int | None, count: int, row: str) -> Difference:
    detail = f"batch_seq {seq} is no published batch ({count} rows with it): {row[:300]}"
    return Difference(kind=Kind.foreign, what="row", seq=seq, where="", detail=detail)


def _ledger_faults(queries: LedgerQueries, region: str) -> Iterator[Difference]:
    for chain in queries.broken_chains(region):
        yield Difference(
            kind=Kind.broken,
            what="ledger",
            seq=chain.seq,
            where=str(chain.partition),
            detail=str(chain),
        )
    head, newest = queries.head_and_newest(region)
    if newest < head:
        detail = f"the head is batch {head}, the newest published batch is {newest or None}"
        yield Difference(kind=Kind.broken, what="ledger", seq=head, where="", detail=detail)


# A row or letter without a span, and a span without either, stand alone: a full join.
# Texts by their bytes: a nondeterministic collation may call different topics equal.
_IN_PLACE = sql.SQL("""
WITH span AS (
    SELECT seq, topic COLLATE "C" AS topic, partition::bigint AS partition,
           start_offset, end_offset, records, dead_letters
    FROM tidemark.spans WHERE region = {region} AND seq BETWEEN {first} AND {last} AND live
), found AS (
    SELECT {batch_seq}::bigint AS seq, kafka_topic::text COLLATE "C" AS topic,
           kafka_partition::bigint AS partition, kafka_offset::bigint AS place, false AS is_letter
    FROM {target} WHERE {batch_seq} BETWEEN {first} AND {last}
    UNION ALL
    SELECT seq, topic COLLATE "C", partition::bigint, "offset", refused_rows IS NULL
    FROM tidemark.dead_letters WHERE region = {region} AND seq BETWEEN {first} AND {last}
), counted AS (
    SELECT records, dead_letters, count(is_letter) AS found,
           count(*) FILTER (WHERE is_letter) AS letters,
           bool_and(is_letter IS NULL
                    OR coalesce(place >= start_offset AND place < end_offset, false)) AS in_place
    FROM span FULL JOIN found USING (seq, topic, partition)
    GROUP BY seq, topic, partition, records, dead_letters
)
SELECT bool_and(in_place AND dead_letters = letters AND (records = found OR {has_transform}))
FROM counted
""")


def are_in_place(
    cursor: Cursor, region: str, again: RereadBatches, target: Target, *, has_transform: bool
) -> bool:
    """Whether each row and letter lies in the span of its own batch, and the counts are theirs.

    With a transform the rows do not tell how many records a span held; its letters do still.
    """
    cursor.execute(
        _IN_PLACE.format(
            region=sql.Literal(region),
            **again.literals,
            target=target.identifier,
            batch_seq=sql.Identifier(BATCH_SEQ),
            has_transform=sql.Literal(has_transform),
        )
    )
    return bool((cursor.fetchone() or (False,))[0])
