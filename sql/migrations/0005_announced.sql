-- What readers of the target were told of, by the events of a scheduler.
ALTER TABLE tidemark.regions
    ADD COLUMN announced_seq bigint NOT NULL DEFAULT 0,   -- they know of the checkpoints up to here; a rewind lowers it
    ADD COLUMN announced_is_rewound boolean NOT NULL DEFAULT false;  -- they were told of more, which is gone
ALTER TABLE tidemark.runs ADD COLUMN announced_seq bigint; -- what the run's close was about to tell; null: nothing

-- Until now only events knew it. A run that was closed has told all that was there, but for one of the command line.
UPDATE tidemark.regions r SET announced_seq = coalesce(
    (SELECT max(b.seq) FROM tidemark.runs n JOIN tidemark.batches b USING (region, epoch)
     WHERE n.region = r.region AND n.state = 'closed' AND n.run_id NOT LIKE 'cli/%' AND b.state = 'published'),
    r.oldest_seq);
