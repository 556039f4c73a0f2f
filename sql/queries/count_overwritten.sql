-- Rows of older batches that an upsert has replaced or deleted. A table that was restored from a dump holds rows that
-- were replaced before: no batch lost more rows than it moved.
UPDATE tidemark.batch_targets b SET rows_overwritten = least(b.rows_moved, b.rows_overwritten + gone.rows)
FROM (SELECT u.before_seq, count(*) AS rows FROM tidemark.undo u
      WHERE u.region = %(region)s AND u.target = %(target)s AND u.seq = %(seq)s AND NOT u.was_deleted
      GROUP BY u.before_seq) gone
WHERE b.region = %(region)s AND b.target = %(target)s AND b.seq = gone.before_seq
