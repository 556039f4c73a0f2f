-- A look, without lock.
SELECT epoch, head_seq, next_seq, cluster_id, group_id, oldest_seq, consecutive_resets, fingerprint,
       (SELECT coalesce(jsonb_object_agg(
            t.target, jsonb_build_array(t.table_name, t.table_oid::bigint, t.key_forms)), '{}')
        FROM tidemark.targets t WHERE t.region = r.region)
FROM tidemark.regions r WHERE region = %(region)s
