-- A batch, whatever became of it.
SELECT epoch, state FROM tidemark.batches WHERE region = %(region)s AND seq = %(seq)s
