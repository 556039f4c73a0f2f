-- A region of many members: rewinds, histories of partitions, pruning, and a view for dashboards.

ALTER TABLE tidemark.regions
    ADD COLUMN oldest_seq bigint NOT NULL DEFAULT 0,  -- oldest checkpoint that can be restored; 0: all of them
    ADD CONSTRAINT oldest_is_not_after_head CHECK (oldest_seq <= head_seq);

ALTER TABLE tidemark.runs
    ADD COLUMN max_bytes bigint,
    ADD COLUMN remarks text[] NOT NULL DEFAULT '{}';  -- what was found at open and did not stop it

-- A partition whose records Kafka lost goes on, when told, as a new history with an initial offset
-- of its own. The ended one keeps what was read of it.
ALTER TABLE tidemark.partitions
    ADD COLUMN ended_epoch bigint,                     -- the open that was told to go on without it
    DROP CONSTRAINT partition_is_known_once;
CREATE UNIQUE INDEX partition_is_known_once ON tidemark.partitions (region, topic, partition)
    WHERE ended_epoch IS NULL;

ALTER TABLE tidemark.spans
    ADD COLUMN leader_epoch int,                       -- of the last record read; null if it held none
    ADD COLUMN bytes bigint;                           -- values, as read

ALTER TABLE tidemark.resets
    ADD COLUMN dead_letters_removed bigint NOT NULL DEFAULT 0;

-- The same offset of another history is another record.
ALTER TABLE tidemark.dead_letters
    ADD COLUMN partition_id bigint REFERENCES tidemark.partitions;
UPDATE tidemark.dead_letters d SET partition_id = p.partition_id FROM tidemark.partitions p
    WHERE p.region = d.region AND p.topic = d.topic AND p.partition = d.partition;
ALTER TABLE tidemark.dead_letters
    ALTER COLUMN partition_id SET NOT NULL,
    DROP CONSTRAINT a_record_is_a_dead_letter_once,
    ADD CONSTRAINT a_record_is_a_dead_letter_once PRIMARY KEY (partition_id, "offset");
CREATE INDEX dead_letters_by_record ON tidemark.dead_letters (region, topic, partition, "offset");

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
            leader_epoch = coalesce(s.leader_epoch, p.leader_epoch)
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

-- Raises unless the region's epoch is the expected one; then takes the next, past any that Kafka has seen.
DROP FUNCTION tidemark.take_epoch(text, bigint);
CREATE FUNCTION tidemark.take_epoch(the_region text, expected bigint, seen bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    taken bigint;
BEGIN
    UPDATE tidemark.regions SET epoch = greatest(epoch, seen) + 1
        WHERE region = the_region AND epoch = expected RETURNING epoch INTO taken;
    IF taken IS NULL THEN
        RAISE EXCEPTION 'region % is not at epoch %', the_region, expected
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'epoch_is_the_expected_one';
    END IF;
    RETURN taken;
END $$;

-- For dashboards and alerts: one row a region. lag is that of the newest run's target offsets.
CREATE VIEW tidemark.region_status AS
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
       run.reason
FROM tidemark.regions r
LEFT JOIN tidemark.runs run ON run.region = r.region AND run.epoch = r.epoch
LEFT JOIN LATERAL (SELECT max(b.published_at) AS published_at FROM tidemark.batches b
                   WHERE b.region = r.region AND b.state = 'published') head ON true;
