-- Until when deletions that nobody has read may be relied on: compaction takes them after a while.

-- Null where an older version wrote the row: then as old as the region.
ALTER TABLE tidemark.partitions ADD COLUMN known_since timestamptz;
ALTER TABLE tidemark.partitions ALTER COLUMN known_since SET DEFAULT clock_timestamp();

-- Before Kafka was asked for the run's facts. Null where an older version opened it: then opened_at.
ALTER TABLE tidemark.runs
    ADD COLUMN asked_at timestamptz,
    ADD COLUMN deletions_until timestamptz;        -- what the run has to read holds all deletions until then; null: for ever, or not known

ALTER TABLE tidemark.run_targets
    ADD COLUMN deletions_kept_ms bigint,           -- how long the topic kept deletions then; null: for ever, or not known
    ADD COLUMN deletions_accepted boolean NOT NULL DEFAULT false;  -- a person let the run go on without those that may be gone
