-- Its place is free again; nothing, if an open or a reset has discarded it.
DELETE FROM tidemark.batches
WHERE region = %(region)s AND seq = %(staged_seq)s AND epoch = %(epoch)s AND state = 'planned' AND kind = 'again'
