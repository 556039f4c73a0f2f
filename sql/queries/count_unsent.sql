-- How many batches are published after the newest one that was sent.
SELECT count(*) FROM tidemark.batches b
WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'
