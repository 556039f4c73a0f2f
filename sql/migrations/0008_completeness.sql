-- All histories of a partition, in order.
CREATE INDEX partitions_by_place ON tidemark.partitions (region, topic, partition, partition_id);

-- What a run saw in Kafka and the ledger has not passed, in the log that the run saw.
CREATE VIEW tidemark.unpassed AS
SELECT t.region, t.epoch, t.topic, t.partition, t.target_offset - h.next_offset AS behind
FROM tidemark.run_targets t
-- The history that the run read: the first one that no open had ended by then.
LEFT JOIN LATERAL (SELECT p.next_offset FROM tidemark.partitions p
                   WHERE p.region = t.region AND p.topic = t.topic AND p.partition = t.partition
                     AND (p.ended_epoch IS NULL OR p.ended_epoch > t.epoch)
                   ORDER BY p.partition_id LIMIT 1) h ON true
WHERE h.next_offset IS NULL OR h.next_offset < t.target_offset;

-- Up to when a region is complete: every record that a consumer could see at that time is in the targets, or a dead
-- letter. An open takes the time before it asks Kafka for the logs' ends; once all of these are passed, it was true then.
-- Read beside the rows, in one statement, it is true of what that statement sees. No decision of a run reads it.
CREATE VIEW tidemark.completeness AS
SELECT r.region,
       ARRAY(SELECT t.table_name FROM tidemark.targets t WHERE t.region = r.region ORDER BY t.target) AS targets,
       c.complete_at,                              -- null: it never was, or what would tell it is pruned
       c.epoch,
       r.head_seq AS seq,
       (SELECT coalesce(sum(b.dead_letters_moved - b.dead_letters_purged - b.dead_letters_replayed), 0)::bigint
        FROM tidemark.batches b
        WHERE b.region = r.region AND b.state = 'published' AND b.dead_letters_moved > 0) AS dead_letters,
       EXISTS (SELECT FROM tidemark.run_targets t WHERE t.region = r.region AND t.epoch = c.epoch
               AND t.high_watermark > t.target_offset) AS transactions_were_open,
       -- What a person accepted as lost before that time: it is in no target.
       ARRAY(SELECT CASE WHEN n.topic_id = p.topic_id
                         THEN format('%s[%s]@[%s, %s)', p.topic, p.partition, p.next_offset, n.initial_offset)
                         ELSE format('%s[%s] of topic id %s from %s on', p.topic, p.partition, p.topic_id, p.next_offset) END
             FROM tidemark.partitions p
             LEFT JOIN LATERAL (SELECT f.topic_id, f.initial_offset FROM tidemark.partitions f
                                WHERE f.region = p.region AND f.topic = p.topic AND f.partition = p.partition
                                  AND f.partition_id > p.partition_id ORDER BY f.partition_id LIMIT 1) n ON true
             WHERE p.region = r.region AND p.ended_epoch <= c.epoch
               AND (n.topic_id IS DISTINCT FROM p.topic_id OR n.initial_offset > p.next_offset)
             UNION ALL
             SELECT DISTINCT format('deletions of %s[%s]', t.topic, t.partition)
             FROM tidemark.runs n JOIN tidemark.run_targets t USING (region, epoch)
             WHERE n.region = r.region AND n.epoch <= c.epoch AND n.overrides <> '{}' AND t.deletions_accepted
             ORDER BY 1) AS accepted
FROM tidemark.regions r
LEFT JOIN LATERAL (
    -- The newest run first. Of one that is not passed, the partition that is furthest behind tells which older runs are
    -- not passed either: a region far behind has thousands of runs, and each saw hundreds of partitions.
    WITH RECURSIVE looked AS (
        SELECT r.epoch + 1 AS epoch, NULL::timestamptz AS asked_at, '' AS topic, 0 AS partition
        UNION ALL
        SELECT n.epoch, n.asked_at, u.topic, u.partition
        FROM looked l
        CROSS JOIN LATERAL (
            SELECT n.region, n.epoch, n.asked_at FROM tidemark.runs n
            WHERE n.region = r.region AND n.epoch < l.epoch AND n.asked_at IS NOT NULL
              AND EXISTS (SELECT FROM tidemark.run_targets t WHERE t.region = n.region AND t.epoch = n.epoch)
              AND NOT EXISTS (SELECT FROM tidemark.unpassed u WHERE u.region = n.region AND u.epoch = n.epoch
                              AND u.topic = l.topic AND u.partition = l.partition OFFSET 0)  -- asked of one run at a time
            ORDER BY n.epoch DESC LIMIT 1) n
        LEFT JOIN LATERAL (SELECT u.topic, u.partition FROM tidemark.unpassed u
                           WHERE u.region = n.region AND u.epoch = n.epoch
                           ORDER BY u.behind DESC LIMIT 1) u ON true
        WHERE l.topic IS NOT NULL
    )
    SELECT l.epoch, l.asked_at AS complete_at FROM looked l WHERE l.topic IS NULL) c ON true;
