-- The counts of the rows that went.
DELETE FROM tidemark.batch_targets WHERE region = %(region)s AND seq = %(seq)s
