"""A ledger with a long past, made by SQL alone: for plans and times, not for reading Kafka."""

from typing import Any

from tidemark.postgres.session import Cursor

TOPIC = "made_up"
CLUSTER = "cluster"
WIDTH = 10
"""Offsets of each span."""
RUN = 10
"""Checkpoints of each run, with as many members, each with a contribution in each."""

# Spans lie by partition, as on a heap that autovacuum has freed and later batches have filled.
_FILLING = """
INSERT INTO tidemark.regions (region, group_id, cluster_id, epoch, head_seq, next_seq)
    VALUES (%(region)s, %(region)s, %(cluster)s, %(checkpoints)s / %(run)s,
            %(checkpoints)s, %(checkpoints)s + 1);
INSERT INTO tidemark.targets (region, target, table_name) VALUES (%(region)s, '', %(target)s);
INSERT INTO tidemark.runs
        (region, epoch, run_id, opening, state, max_records, in_flight,
         dead_letters_max_ratio, backlog)
    SELECT %(region)s, e, e, gen_random_uuid(), 'closed', 1000, 1, 0.5, 1000
    FROM generate_series(1, %(checkpoints)s / %(run)s) e;
INSERT INTO tidemark.members (region, epoch, uuid, name)
    SELECT %(region)s, e, gen_random_uuid(), 'm'
    FROM generate_series(1, %(checkpoints)s / %(run)s) e, generate_series(1, %(members)s);
INSERT INTO tidemark.partitions
        (region, topic, partition, topic_id, initial_offset, next_offset, seq)
    SELECT %(region)s, %(topic)s, n, 'id-1', 0, %(checkpoints)s * %(width)s, %(checkpoints)s
    FROM generate_series(0, %(partitions)s - 1) n;
INSERT INTO tidemark.run_targets
        (region, epoch, topic, partition, target_offset, high_watermark, stable_since)
    SELECT %(region)s, e, %(topic)s, n, e * %(run)s * %(width)s, e * %(run)s * %(width)s,
        clock_timestamp()
    FROM generate_series(1, %(checkpoints)s / %(run)s) e, generate_series(0, %(partitions)s - 1) n;
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, state, spans,
        claimed, records, rows_contributed, rows_moved, dead_letters_contributed,
        dead_letters_moved, published_at)
    SELECT %(region)s, s, (s - 1) / %(run)s + 1, s - 1, 1, 'published', %(partitions)s,
        %(partitions)s, %(width)s * %(partitions)s,
        %(width)s * %(partitions)s - %(dead_letters)s,
        %(width)s * %(partitions)s - %(dead_letters)s,
        %(dead_letters)s, %(dead_letters)s, clock_timestamp()
    FROM generate_series(1, %(checkpoints)s) s;
INSERT INTO tidemark.batch_targets (region, seq, target, rows_contributed, rows_moved,
        rows_refused, rows_deleted, rows_superseded)
    SELECT region, seq, '', rows_contributed, rows_moved, 0, 0, 0
    FROM tidemark.batches WHERE region = %(region)s;
INSERT INTO tidemark.contributions (region, seq, member, attempts, targets, rows)
    SELECT %(region)s, b.seq, m.member, '{0}', '{""}', ARRAY[%(width)s]
    FROM tidemark.batches b JOIN tidemark.members m USING (region, epoch)
    WHERE b.region = %(region)s;
INSERT INTO tidemark.spans (region, seq, partition_id, topic, partition, start_offset, end_offset,
        topic_id, contribution, attempt, records, dead_letters, bytes)
    SELECT %(region)s, s, p.partition_id, p.topic, p.partition,
        (s - 1) * %(width)s, s * %(width)s, 'id-1',
        c.contributions[p.partition %% %(members)s + 1], 0, %(width)s, 0, 1000
    FROM tidemark.partitions p, generate_series(1, %(checkpoints)s) s
    JOIN (SELECT seq, array_agg(contribution) AS contributions FROM tidemark.contributions
          WHERE region = %(region)s GROUP BY seq) c ON c.seq = s
    WHERE p.region = %(region)s ORDER BY p.partition_id, s;
INSERT INTO tidemark.dead_letters
        (region, partition_id, topic, partition, "offset", seq, reason, detail)
    SELECT s.region, s.partition_id, s.topic, s.partition, s.start_offset, s.seq,
        'INVALID_JSON', ''
    FROM tidemark.spans s WHERE s.region = %(region)s AND s.partition < %(dead_letters)s;
"""


def fill(
    cursor: Cursor,
    region: str,
    *,
    checkpoints: int,
    partitions: int,
    members: int = 2,
    dead_letters: int = 1,
    target: str | None = None,
) -> None:
    """The region is there with so many checkpoints, a span of each partition in each.

    `dead_letters` are those of each checkpoint. Statistics are not gathered.
    """
    values: dict[str, Any] = {
        "region": region,
        "target": target or f"public.{region}",
        "cluster": CLUSTER,
        "topic": TOPIC,
        "width": WIDTH,
        "run": RUN,
        "checkpoints": checkpoints,
        "partitions": partitions,
        "members": members,
        "dead_letters": dead_letters,
    }
    cursor.execute(_FILLING, values)
