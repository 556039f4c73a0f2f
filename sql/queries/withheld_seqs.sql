-- The batches that were withheld from the output topic and count, as far as checkpoints are retained.
SELECT b.seq FROM tidemark.batches b
WHERE b.region = %(region)s AND b.withheld AND b.state = 'published' ORDER BY b.seq
