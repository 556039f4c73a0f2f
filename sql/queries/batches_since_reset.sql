-- How many checkpoints there are since the newest reset; none where there never was one.
-- Where all before it are pruned, so may some after it be: then their seqs tell how many there were.
SELECT CASE WHEN r.oldest_seq > s.from_seq THEN r.head_seq - s.from_seq
       ELSE (SELECT count(*) FROM tidemark.batches b
             WHERE b.region = s.region AND b.epoch >= s.epoch AND b.state = 'published') END
FROM tidemark.resets s JOIN tidemark.regions r USING (region)
WHERE s.region = %(region)s ORDER BY s.epoch DESC LIMIT 1
