-- The batch that this epoch works on, if there is one.
SELECT seq, epoch FROM tidemark.batches WHERE region = %(region)s AND state = 'planned'
