-- Rows of older batches that an upsert has replaced or deleted.
UPDATE tidemark.batches b SET rows_overwritten = b.rows_overwritten + gone.rows
FROM (SELECT u.before_seq, count(*) AS rows FROM tidemark.undo u
      WHERE u.region = %(region)s AND u.seq = %(seq)s AND NOT u.was_deleted GROUP BY u.before_seq) gone
WHERE b.region = %(region)s AND b.seq = gone.before_seq
