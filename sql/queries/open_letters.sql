-- How many dead letters are there, neither purged nor replayed, as `region_status` counts them.
SELECT coalesce(sum(b.dead_letters_moved - b.dead_letters_purged - b.dead_letters_replayed), 0)::bigint
FROM tidemark.batches b
WHERE b.region = %(region)s AND b.state = 'published' AND b.dead_letters_moved > 0
