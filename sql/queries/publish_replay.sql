-- The named CHECK constraints refuse a replay whose counts are not those of what it chose and staged.
UPDATE tidemark.batches b
SET state = 'published', published_at = clock_timestamp(),
    rows_contributed = (SELECT sum(c.rows) FROM tidemark.contributions c
                        WHERE c.region = b.region AND c.seq = b.seq),
    rows_moved = %(rows_moved)s, dead_letters_contributed = %(dead_letters)s, dead_letters_moved = 0,
    letters_replayed = %(replayed)s, letters_kept = %(kept)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.epoch = %(epoch)s AND b.state = 'planned' AND b.kind = 'replay'
