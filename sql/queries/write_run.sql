-- One epoch's work.
INSERT INTO tidemark.runs
    (region, epoch, run_id, opening, max_records, max_bytes, max_batches, max_seconds, in_flight,
     dead_letters_max_ratio, dead_letters_max_count, backlog, overrides, remarks)
VALUES (%(region)s, %(epoch)s, %(run_id)s, %(opening)s, %(max_records)s, %(max_bytes)s, %(max_batches)s,
        %(max_seconds)s, %(in_flight)s, %(dead_letters_max_ratio)s, %(dead_letters_max_count)s, %(backlog)s, %(overrides)s, %(remarks)s)
