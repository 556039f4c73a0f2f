-- Who had a part in the batches of the newest epochs, newest first; an unpublished one has no end.
SELECT DISTINCT c.member, b.seq, b.state, greatest(b.planned_at, m.joined_at), b.published_at, b.rows_moved
FROM tidemark.batches b JOIN tidemark.contributions c USING (region, seq)
JOIN tidemark.members m USING (member)
WHERE b.region = %(region)s AND b.epoch >= %(epoch)s ORDER BY b.seq DESC, c.member LIMIT %(limit)s
