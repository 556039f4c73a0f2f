-- The run's next batch.

-- name: batches_since_reset
-- How many checkpoints there are since the newest reset; none where there never was one.
-- Where all before it are pruned, so may some after it be: then their seqs tell how many there were.
SELECT CASE WHEN r.oldest_seq > s.from_seq THEN r.head_seq - s.from_seq
       ELSE (SELECT count(*) FROM tidemark.batches b
             WHERE b.region = s.region AND b.epoch >= s.epoch AND b.state = 'published') END
FROM tidemark.resets s JOIN tidemark.regions r USING (region)
WHERE s.region = %(region)s ORDER BY s.epoch DESC LIMIT 1

-- name: bound_reached
-- Which bound of the run is reached, by Postgres' clock and the ledger's count. A time bound lets the first batch
-- through: a slow start is no failure.
SELECT CASE
    WHEN r.max_batches <= planned.batches THEN 'max_batches'
    WHEN r.max_seconds <= extract(epoch FROM clock_timestamp() - r.opened_at) AND planned.batches > 0 THEN 'max_seconds'
END
FROM tidemark.runs r CROSS JOIN LATERAL (
    SELECT count(*) AS batches FROM tidemark.batches b WHERE b.region = r.region AND b.epoch = r.epoch) planned
WHERE r.region = %(region)s AND r.epoch = %(epoch)s

-- name: bytes_per_offset
-- What an offset of each partition weighed when it was read last.
SELECT p.topic, p.partition, s.weight
FROM tidemark.partitions p CROSS JOIN LATERAL (
    SELECT n.bytes::float8 / (n.end_offset - n.start_offset) AS weight FROM tidemark.spans n
    WHERE n.partition_id = p.partition_id AND n.live AND n.bytes IS NOT NULL ORDER BY n.seq DESC LIMIT 1) s
WHERE p.region = %(region)s AND p.ended_epoch IS NULL

-- name: deletions_are_due
-- Whether compaction may take deletions by now that the run has yet to read.
SELECT coalesce(deletions_until < clock_timestamp(), false)
FROM tidemark.runs WHERE region = %(region)s AND epoch = %(epoch)s

-- name: give_out_seq
-- A seq is given out once.
UPDATE tidemark.regions SET next_seq = next_seq + 1 WHERE region = %(region)s RETURNING next_seq - 1

-- name: newest_sizes
-- How large the newest batches are that time bounded, what they might have been by it, and how long they took: null
-- where that is not known yet. One is planned at most. Replays tell nothing.
SELECT b.most, b.offsets, CASE WHEN b.drain_seconds IS NOT NULL THEN greatest(b.drain_seconds, b.publish_seconds) END
FROM (SELECT seq, kind, most, offsets, drain_seconds, publish_seconds FROM tidemark.batches
      WHERE region = %(region)s ORDER BY seq DESC LIMIT %(most)s) b
WHERE b.kind = 'drain' AND b.most IS NOT NULL AND b.offsets > 0 ORDER BY b.seq DESC

-- name: next_offsets
-- The next offset of each partition of the named regions.
SELECT p.region, p.topic, p.partition, p.next_offset FROM tidemark.partitions p
WHERE p.region = ANY(%(regions)s) AND p.ended_epoch IS NULL

-- name: pass_over
-- Told to leave out a corrupt range: the history ends at its start, a new one begins at its end.
WITH ended AS (
    UPDATE tidemark.partitions p SET ended_epoch = %(epoch)s, ended_seq = r.head_seq
    FROM tidemark.regions r
    WHERE r.region = %(region)s AND p.region = r.region AND p.topic = %(topic)s AND p.partition = %(partition)s
      AND p.ended_epoch IS NULL AND p.next_offset = %(start)s
    RETURNING p.region, p.topic, p.partition, p.topic_id
)
INSERT INTO tidemark.partitions (region, topic, partition, topic_id, initial_offset, next_offset)
SELECT region, topic, partition, topic_id, %(end)s, %(end)s FROM ended

-- name: pass_over_remark
-- What was found while the run was at work.
UPDATE tidemark.runs SET remarks = remarks || %(remark)s::text WHERE region = %(region)s AND epoch = %(epoch)s

-- name: unpublished_batch_spans
-- The plan of a batch, who claimed what, and where the last record before each span ended: in the batch before it,
-- if that is unpublished too and is known to hold a record of the partition; or else as the partition knows. With
-- topics and partitions, spans of no others.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.contribution,
       coalesce(n.record_end, p.record_end),
       CASE WHEN n.record_end IS NULL THEN p.leader_epoch ELSE n.leader_epoch END
FROM tidemark.batches b JOIN tidemark.spans s USING (region, seq)
JOIN tidemark.partitions p USING (partition_id)
LEFT JOIN tidemark.batches before ON before.region = b.region AND before.seq = b.previous_seq
    AND before.state = 'planned'
LEFT JOIN tidemark.spans n ON n.region = before.region AND n.seq = before.seq
    AND n.partition_id = s.partition_id AND n.end_offset = s.start_offset
WHERE b.region = %(region)s AND b.seq = %(seq)s
  AND (%(topics)s::text[] IS NULL
       OR (s.topic = ANY (%(topics)s::text[]) AND s.partition = ANY (%(partitions)s::int[])))
ORDER BY s.topic, s.partition

-- name: unpublished_batches
-- The batches that are planned and not published, the lowest first.
SELECT seq, epoch, spans, claimed = spans FROM tidemark.batches
WHERE region = %(region)s AND state = 'planned' ORDER BY seq

-- name: write_batch
-- A planned batch: it follows the newest one that is planned, or else the head.
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, spans, offsets, most, sized_by)
SELECT r.region, %(seq)s, n.epoch, coalesce(max(b.seq), r.head_seq), n.in_flight, %(spans)s, %(offsets)s, %(most)s,
       %(sized_by)s
FROM tidemark.regions r
JOIN tidemark.runs n ON n.region = r.region AND n.epoch = %(epoch)s
LEFT JOIN tidemark.batches b ON b.region = r.region AND b.state = 'planned'
WHERE r.region = %(region)s GROUP BY r.region, n.region, n.epoch

-- name: write_batch_spans
-- Its spans, with the topic ids they were planned on.
INSERT INTO tidemark.spans
    (region, seq, partition_id, topic, partition, start_offset, end_offset, topic_id)
SELECT %(region)s, %(seq)s, p.partition_id, s.topic, s.partition, s.start_offset, s.end_offset, p.topic_id
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[])
    AS s (topic, partition, start_offset, end_offset)
JOIN tidemark.partitions p ON p.region = %(region)s AND p.topic = s.topic AND p.partition = s.partition
    AND p.ended_epoch IS NULL

-- name: write_bound
-- The run plans no further batch.
UPDATE tidemark.runs SET bound = %(bound)s WHERE region = %(region)s AND epoch = %(epoch)s
