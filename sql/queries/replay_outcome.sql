-- What a replay has published whose COMMIT had no answer.
SELECT letters_replayed, letters_kept, rows_moved FROM tidemark.batches
WHERE region = %(region)s AND seq = %(seq)s AND state <> 'planned'
