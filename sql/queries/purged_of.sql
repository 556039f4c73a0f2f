-- Dead letters of these batches that a person has purged.
SELECT coalesce(sum(dead_letters_purged), 0)::bigint FROM tidemark.batches
WHERE region = %(region)s AND seq BETWEEN %(first)s AND %(last)s
