-- One epoch's work.
INSERT INTO tidemark.runs
    (region, epoch, run_id, opening, max_records, max_batches, max_seconds, backlog, overrides)
VALUES (%(region)s, %(epoch)s, %(run_id)s, %(opening)s, %(max_records)s, %(max_batches)s,
        %(max_seconds)s, %(backlog)s, %(overrides)s)
