-- Rows of each target (of an upsert: changes of keys), dead letters and replays that were published after a seq; after
-- the initial state also the forgotten ones, and all replays: their dead letters go.
SELECT (SELECT coalesce(jsonb_object_agg(t.target, coalesce(p.rows, 0)
                   + CASE WHEN %(seq)s = 0 THEN t.pruned_rows ELSE 0 END), '{}')
        FROM tidemark.targets t
        LEFT JOIN (SELECT o.target, sum(o.rows_moved + o.rows_deleted) AS rows
                   FROM tidemark.batches b JOIN tidemark.batch_targets o ON o.region = b.region AND o.seq = b.seq
                   WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'
                     AND o.region = %(region)s AND o.seq > %(seq)s
                   GROUP BY o.target) p USING (target)
        WHERE t.region = %(region)s),
       coalesce(sum(b.dead_letters_moved - b.dead_letters_purged), 0)::bigint,
       CASE WHEN %(seq)s = 0 THEN (SELECT count(*) FROM tidemark.dead_letters d
                                   WHERE d.region = %(region)s AND d.replayed_seq > 0)
            ELSE coalesce(sum(b.letters_replayed), 0)::bigint END
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'
