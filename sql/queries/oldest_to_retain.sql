-- The oldest of the newest checkpoints; nothing while there are fewer.
SELECT seq, epoch FROM tidemark.batches WHERE region = %(region)s AND state = 'published'
ORDER BY seq DESC OFFSET %(retain)s - 1 LIMIT 1
