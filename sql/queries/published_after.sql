-- Rows (of an upsert: changes of keys), dead letters and replays that were published after a seq; after the initial
-- state also the forgotten ones, and all replays: their dead letters go.
SELECT (coalesce(sum(b.rows_moved + b.rows_deleted), 0) + CASE WHEN %(seq)s = 0 THEN r.pruned_rows ELSE 0 END)::bigint,
       coalesce(sum(b.dead_letters_moved - b.dead_letters_purged), 0)::bigint,
       CASE WHEN %(seq)s = 0 THEN (SELECT count(*) FROM tidemark.dead_letters d
                                   WHERE d.region = r.region AND d.replayed_seq > 0)
            ELSE coalesce(sum(b.letters_replayed), 0)::bigint END
FROM tidemark.regions r
LEFT JOIN tidemark.batches b ON b.region = r.region AND b.seq > %(seq)s AND b.state = 'published'
WHERE r.region = %(region)s GROUP BY r.region
