-- How many checkpoints there are since the newest reset; none where there never was one.
SELECT (SELECT count(*) FROM tidemark.batches b
        WHERE b.region = s.region AND b.epoch >= s.epoch AND b.state = 'published')
FROM tidemark.resets s WHERE s.region = %(region)s ORDER BY s.epoch DESC LIMIT 1
