-- Another group, under a new epoch; the seqs go on above those that Kafka has seen there.
UPDATE tidemark.regions SET group_id = %(group_id)s, epoch = greatest(epoch, %(epoch)s) + 1,
    next_seq = greatest(next_seq, %(seq)s + 1)
WHERE region = %(region)s RETURNING epoch
