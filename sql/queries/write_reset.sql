-- The audit row of a reset, with what a rewind has to remove.
INSERT INTO tidemark.resets (region, epoch, requested_by, why, run_id, request_id, resetting, discarded_seqs, from_seq,
                             to_seq, batches, rows_expected, dead_letters_expected, overrides)
VALUES (%(region)s, %(epoch)s, %(requested_by)s, %(why)s, %(run_id)s, %(request_id)s, %(resetting)s,
        %(discarded_seqs)s, %(head_seq)s, %(to_seq)s,
        (SELECT count(*) FROM tidemark.batches
         WHERE region = %(region)s AND seq > %(to_seq)s AND state = 'published'), %(rows)s, %(dead_letters)s, %(overrides)s)
