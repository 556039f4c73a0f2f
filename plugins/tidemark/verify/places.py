"""Where rows and dead letters lie: each in the span of its own batch, and all are counted."""

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.target import Target
from tidemark.verify.scratch import Again

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
    cursor: Cursor, region: str, again: Again, target: Target, *, has_transform: bool
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
