-- The audit row of a reset or rewind.
INSERT INTO tidemark.resets (region, epoch, requested_by, why, run_id, resetting, discarded_seq, from_seq, to_seq)
VALUES (%(region)s, %(epoch)s, %(requested_by)s, %(why)s, %(run_id)s, %(resetting)s, %(discarded_seq)s,
        %(head_seq)s, %(to_seq)s)
