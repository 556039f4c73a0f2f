-- Resets and rewinds: what they remove, restore and read again.

-- name: abandon_reset
-- The reset of this epoch changes nothing more: what was published stays.
UPDATE tidemark.resets SET state = 'superseded', finished_at = clock_timestamp()
WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'started'

-- name: finish_reset
-- Kafka reads back equal, and what was to be taken back is: the reset is complete.
UPDATE tidemark.resets SET state = 'finished', finished_at = clock_timestamp(),
    rows_removed = %(rows)s, dead_letters_removed = %(dead_letters)s
WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'started'

-- name: finished_reset
-- A reset that this request has finished. One that died, or was superseded, may be asked for again.
SELECT s.epoch, s.epoch = r.epoch, s.from_seq, s.to_seq, s.discarded_seqs, s.batches,
       s.rows_removed, s.dead_letters_removed, s.finished_at
FROM tidemark.resets s JOIN tidemark.regions r USING (region)
WHERE s.region = %(region)s AND s.request_id = %(request_id)s AND s.state = 'finished'
ORDER BY s.epoch DESC LIMIT 1

-- name: forget_pruned_rows
-- Back at the initial state no row is left, also none of those that the ledger has forgotten.
UPDATE tidemark.targets SET pruned_rows = 0 WHERE region = %(region)s AND %(seq)s = 0

-- name: published_after
-- Rows of each target (of an upsert: changes of keys), dead letters and replays that were published after a seq; after
-- the initial state also the forgotten ones, and all replays: their dead letters go.
SELECT (SELECT coalesce(jsonb_object_agg(t.target, coalesce(p.rows, 0)
                   + CASE WHEN %(seq)s = 0 THEN t.pruned_rows ELSE 0 END), '{}')
        FROM tidemark.targets t
        LEFT JOIN (SELECT o.target, sum(o.rows_moved + o.rows_deleted) AS rows
                   FROM tidemark.batches b JOIN tidemark.batch_targets o ON o.region = b.region AND o.seq = b.seq
                   WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'
                     AND o.region = %(region)s AND o.seq > %(seq)s
                   GROUP BY o.target) p USING (target)
        WHERE t.region = %(region)s),
       coalesce(sum(b.dead_letters_moved - b.dead_letters_purged), 0)::bigint,
       CASE WHEN %(seq)s = 0 THEN (SELECT count(*) FROM tidemark.dead_letters d
                                   WHERE d.region = %(region)s AND d.replayed_seq > 0)
            ELSE coalesce(sum(b.letters_replayed), 0)::bigint END
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'

-- name: published_ways
-- How a target was published to after a seq, the newest way first: by which key it was upserted (null: appended), and in
-- which batch last; before that the newest upsert that can't be taken back, and the oldest checkpoint.
SELECT t.undo_pruned_seq, r.oldest_seq, p.key, p.seq
FROM tidemark.targets t JOIN tidemark.regions r USING (region)
LEFT JOIN (SELECT o.key, max(o.seq) AS seq
           FROM tidemark.batches b JOIN tidemark.batch_targets o ON o.region = b.region AND o.seq = b.seq
           WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'
             AND o.region = %(region)s AND o.seq > %(seq)s AND o.target = %(target)s
           GROUP BY o.key) p ON true
WHERE t.region = %(region)s AND t.target = %(target)s ORDER BY p.seq DESC

-- name: reread
-- What a rewind to a seq reads again of each partition, as far as the ledger has its spans: their records, the first one.
SELECT s.topic, s.partition, min(s.start_offset), max(s.end_offset), sum(s.records)::bigint,
       (array_agg(s.end_offset ORDER BY s.seq))[1], (array_agg(s.records ORDER BY s.seq))[1]
FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id)
JOIN tidemark.regions r ON r.region = s.region AND s.seq <= r.head_seq  -- not of the unpublished batch
WHERE s.region = %(region)s AND s.seq > %(seq)s AND s.live AND p.ended_epoch IS NULL
GROUP BY s.topic, s.partition ORDER BY s.topic, s.partition

-- name: reset_state
-- What became of a rewind whose COMMIT had no answer.
SELECT state FROM tidemark.resets WHERE resetting = %(uuid)s

-- name: restored_checkpoint
-- The merged checkpoint at a seq, which a rewind restores: where each partition goes on after what was read up to there.
-- A partition stands in the history of its log whose later spans count: what was read between the seq and a range that a
-- person accepted as lost is not passed. A rewind past such a range is refused; without later spans it begins behind it.
WITH r AS MATERIALIZED (
    SELECT g.region, g.epoch, (SELECT json_object_agg(f.key, f.value) FROM json_each_text(g.fingerprint) f
           WHERE starts_with(f.key, 'output.') OR f.key = 'dead_letters.topic') AS sends
    FROM tidemark.regions g WHERE g.region = %(region)s
), histories AS MATERIALIZED (
    SELECT DISTINCT ON (o.topic, o.partition, o.topic_id) o.topic, o.partition, o.topic_id, o.partition_id, o.initial_offset
    FROM tidemark.partitions o
    WHERE o.region = %(region)s AND o.ended_epoch IS NOT NULL
      AND EXISTS (SELECT FROM tidemark.spans l WHERE l.partition_id = o.partition_id AND l.live AND l.seq > %(seq)s)
    ORDER BY o.topic, o.partition, o.topic_id, o.partition_id
)
SELECT r.epoch, %(seq)s::bigint, p.topic, p.partition,
       coalesce(s.end_offset, h.initial_offset, p.initial_offset), r.sends, p.topic_id, p.next_offset
FROM r
LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
LEFT JOIN histories h USING (topic, partition, topic_id)
LEFT JOIN LATERAL (SELECT n.end_offset FROM tidemark.spans n
                   WHERE n.partition_id = coalesce(h.partition_id, p.partition_id) AND n.live AND n.seq <= %(seq)s
                   ORDER BY n.seq DESC LIMIT 1) s ON true
ORDER BY p.topic, p.partition

-- name: rewind_batches
-- What is taken back stays in the ledger as a fact, and under no checkpoint.
UPDATE tidemark.batches SET state = 'rewound'
WHERE region = %(region)s AND seq > %(seq)s AND state = 'published'

-- name: rewind_dead_letters
-- Dead letters are read again with their batches.
DELETE FROM tidemark.dead_letters WHERE region = %(region)s AND seq > %(seq)s

-- name: rewind_head
-- The last update of a rewind; it must touch exactly one row. What readers were told of and is gone, they are told of anew.
UPDATE tidemark.regions SET head_seq = %(seq)s, oldest_seq = least(oldest_seq, %(seq)s),
    announced_is_rewound = announced_is_rewound OR announced_seq > %(seq)s,
    announced_seq = least(announced_seq, %(seq)s)
WHERE region = %(region)s AND epoch = %(epoch)s

-- name: rewind_is_under_way
-- A rewind of the region's own epoch that has lowered Kafka and not yet the ledger, or died in between.
SELECT EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'started' AND s.to_seq < s.from_seq)

-- name: rewind_partitions
-- Each partition goes back to its newest live span, or to its initial offset.
UPDATE tidemark.partitions p
SET next_offset = coalesce(s.end_offset, p.initial_offset), seq = coalesce(s.seq, 0),
    record_end = s.record_end, leader_epoch = s.leader_epoch
FROM tidemark.partitions q
LEFT JOIN LATERAL (SELECT n.end_offset, n.seq, n.record_end, n.leader_epoch FROM tidemark.spans n
                   WHERE n.partition_id = q.partition_id AND n.live ORDER BY n.seq DESC LIMIT 1) s ON true
WHERE q.region = %(region)s AND q.ended_epoch IS NULL AND p.partition_id = q.partition_id

-- name: rewind_plan
-- What a rewind to a seq meets: is there such a checkpoint, and histories that can't be read again.
SELECT %(seq)s = 0 OR EXISTS (SELECT FROM tidemark.batches b
           WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'),
       (SELECT count(*) FROM tidemark.batches b
        WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'),
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.seq > %(seq)s),
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.replayed_seq > %(seq)s),
       ARRAY(SELECT DISTINCT p.topic || '[' || p.partition || ']' FROM tidemark.partitions p
             WHERE p.region = %(region)s AND p.ended_epoch IS NOT NULL
               AND EXISTS (SELECT FROM tidemark.spans s
                           WHERE s.partition_id = p.partition_id AND s.live AND s.seq > %(seq)s))

-- name: rewind_replays
-- What a replay after the checkpoint made of dead letters goes: they are dead letters again.
WITH again AS (
    UPDATE tidemark.dead_letters SET replayed_seq = NULL, chosen_seq = NULL
    WHERE region = %(region)s AND replayed_seq > %(seq)s RETURNING seq
), counted AS (
    UPDATE tidemark.batches b SET dead_letters_replayed = b.dead_letters_replayed - g.letters
    FROM (SELECT seq, count(*) AS letters FROM again GROUP BY seq) g
    WHERE b.region = %(region)s AND b.seq = g.seq
)
SELECT count(*) FROM again

-- name: rewind_spans
-- Rewound spans no longer stand in the way of reading them again.
UPDATE tidemark.spans SET live = false WHERE region = %(region)s AND seq > %(seq)s AND live

-- name: told_of_rewind
-- Readers are being told that the rewind of this epoch has taken batches back.
UPDATE tidemark.regions SET announced_is_rewound = false WHERE region = %(region)s AND epoch = %(epoch)s

-- name: topics_read
-- Topics that the region's newest run reads: the next one reads others only if a person accepts that.
SELECT DISTINCT t.topic FROM tidemark.run_targets t
WHERE t.region = %(region)s AND t.epoch = (SELECT max(r.epoch) FROM tidemark.runs r WHERE r.region = %(region)s)

-- name: unfinished_reset
-- A reset of the run that took its epoch and died before Kafka read back equal. A newer settle supersedes it.
SELECT epoch FROM tidemark.resets
WHERE region = %(region)s AND run_id = %(run_id)s AND state = 'started' ORDER BY epoch DESC LIMIT 1
