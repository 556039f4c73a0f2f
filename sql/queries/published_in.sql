-- What an epoch has published.
SELECT count(*), coalesce(sum(rows_moved), 0)::bigint,
       coalesce(sum(dead_letters_moved), 0)::bigint, coalesce(sum(records), 0)::bigint
FROM tidemark.batches WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'published'
