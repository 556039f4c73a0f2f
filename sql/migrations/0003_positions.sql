-- The leader epoch of a record holds for the offset after it, and for none behind that: markers and
-- gaps up to a span's end may be of a newer leader. So both are kept, or neither.

ALTER TABLE tidemark.spans
    ADD COLUMN record_end bigint;                      -- offset after the last record read; null if it held none

ALTER TABLE tidemark.partitions
    ADD COLUMN record_end bigint,                      -- offset after the last record consumed
    ADD CONSTRAINT record_end_is_not_after_next_offset CHECK (record_end <= next_offset);

UPDATE tidemark.spans SET leader_epoch = NULL;
UPDATE tidemark.partitions SET leader_epoch = NULL;

-- Moves every partition of a batch from its span's start to its span's end, or none.
CREATE OR REPLACE FUNCTION tidemark.advance_partitions(the_region text, the_seq bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    planned bigint;
    moved   bigint;
BEGIN
    SELECT count(*) INTO planned FROM tidemark.spans s
        WHERE s.region = the_region AND s.seq = the_seq AND s.contribution IS NOT NULL AND s.live;
    UPDATE tidemark.partitions p
        SET next_offset = s.end_offset, seq = the_seq,
            record_end = s.record_end, leader_epoch = s.leader_epoch
        FROM tidemark.spans s
        WHERE s.region = the_region AND s.seq = the_seq AND s.contribution IS NOT NULL AND s.live
          AND p.partition_id = s.partition_id
          AND p.ended_epoch IS NULL
          AND p.topic_id = s.topic_id
          AND p.next_offset = s.start_offset;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> planned THEN
        RAISE EXCEPTION 'batch % of region %: % of % partitions stand at the start of their span',
            the_seq, the_region, moved, planned
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'partition_stands_at_span_start';
    END IF;
    RETURN moved;
END $$;

-- As it was, and of the newest run when it opened and why it failed, whatever holds the epoch now.
CREATE OR REPLACE VIEW tidemark.region_status AS
SELECT r.region,
       coalesce(run.state, 'reset') AS state,
       r.epoch,
       r.head_seq,
       (SELECT b.seq FROM tidemark.batches b WHERE b.region = r.region AND b.state = 'planned') AS unpublished_seq,
       (SELECT sum(greatest(t.target_offset - p.next_offset, 0))::bigint
        FROM tidemark.run_targets t JOIN tidemark.partitions p
            ON p.region = t.region AND p.topic = t.topic AND p.partition = t.partition AND p.ended_epoch IS NULL
        WHERE t.region = r.region
          AND t.epoch = (SELECT max(n.epoch) FROM tidemark.runs n WHERE n.region = r.region)) AS lag,
       head.published_at AS last_checkpoint_at,
       extract(epoch FROM clock_timestamp() - head.published_at)::bigint AS last_checkpoint_age_s,
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = r.region) AS dead_letters,
       r.consecutive_resets,
       (SELECT count(*) FROM tidemark.members m WHERE m.region = r.region AND m.epoch = r.epoch
            AND m.state NOT IN ('done', 'failed', 'reset complete')) AS members,
       run.run_id,
       run.opened_at,
       run.closed_at,
       run.reason,
       newest.opened_at AS newest_run_opened_at,
       newest.reason AS newest_run_reason
FROM tidemark.regions r
LEFT JOIN tidemark.runs run ON run.region = r.region AND run.epoch = r.epoch
LEFT JOIN LATERAL (SELECT max(b.published_at) AS published_at FROM tidemark.batches b
                   WHERE b.region = r.region AND b.state = 'published') head ON true
LEFT JOIN LATERAL (SELECT n.opened_at, n.reason FROM tidemark.runs n
                   WHERE n.region = r.region ORDER BY n.epoch DESC LIMIT 1) newest ON true;
