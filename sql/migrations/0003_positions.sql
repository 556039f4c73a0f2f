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
