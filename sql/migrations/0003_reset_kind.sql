-- What a row of tidemark.resets records. Until now a withholding was told by a word among its overrides, which are
-- what a person accepted. The default is for a reset of an older version that is at work.
ALTER TABLE tidemark.resets ADD COLUMN kind text NOT NULL DEFAULT 'reset';
UPDATE tidemark.resets SET kind = 'withhold', overrides = array_remove(overrides, 'withhold')
WHERE 'withhold' = ANY (overrides);
UPDATE tidemark.resets SET kind = 'rewind' WHERE to_seq < from_seq;
ALTER TABLE tidemark.resets ADD CONSTRAINT reset_kind_is_known CHECK (kind IN ('reset', 'rewind', 'replay', 'withhold'));
