-- What is published after a checkpoint.
SELECT count(*), coalesce(sum(rows_moved - rows_overwritten), 0)::bigint, coalesce(sum(dead_letters_moved), 0)::bigint
FROM tidemark.batches WHERE region = %(region)s AND seq > %(seq)s AND state = 'published'
