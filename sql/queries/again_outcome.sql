-- What the replay of a batch has left whose COMMIT had no answer; nothing, if it did not happen.
SELECT rows_moved, dead_letters_moved FROM tidemark.batches
WHERE region = %(region)s AND seq = %(seq)s AND again_seq = %(staged_seq)s
