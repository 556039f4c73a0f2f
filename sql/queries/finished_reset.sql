-- A reset that this request has finished. One that died, or was superseded, may be asked for again.
SELECT s.epoch, s.epoch = r.epoch, s.from_seq, s.to_seq, s.discarded_seqs, s.batches,
       s.rows_removed, s.dead_letters_removed, s.finished_at
FROM tidemark.resets s JOIN tidemark.regions r USING (region)
WHERE s.region = %(region)s AND s.request_id = %(request_id)s AND s.state = 'finished'
ORDER BY s.epoch DESC LIMIT 1
