-- How large a batch is, why, and how long it took: the next one takes what the time allows.
-- Null where an older version wrote the row.
ALTER TABLE tidemark.runs ADD COLUMN batch_seconds bigint;  -- so long a batch may take; null: time bounds none

ALTER TABLE tidemark.batches
    ADD COLUMN offsets bigint,                     -- of its plan
    ADD COLUMN most bigint,                        -- so many it might take by its time, whatever else bounded it; null: any number
    ADD COLUMN sized_by text,                      -- what kept its plan from taking more
    ADD COLUMN drain_seconds float8,               -- of the member that took longest
    ADD COLUMN publish_seconds float8;             -- for which the publish held the region's lock

ALTER TABLE tidemark.contributions ADD COLUMN seconds float8;  -- that the member's job took, staging included
