-- The periods that readers were told of, by the events of a scheduler: each once, and again only after a rewind.
ALTER TABLE tidemark.regions
    ADD COLUMN periods_since timestamptz,     -- the first one that a close was about to tell of began then
    ADD COLUMN periods_until timestamptz,     -- they know of those that ended by then; a rewind lowers it
    ADD COLUMN periods_sent timestamptz,      -- of those that ended by then some close was about to tell
    ADD COLUMN periods_lateness interval;     -- so long after its end the newest one was complete
ALTER TABLE tidemark.runs ADD COLUMN periods_until timestamptz;  -- what the run's close was about to tell; null: nothing
