-- Every region of this ledger.
SELECT s.region, s.state, s.epoch, s.head_seq, s.lag, s.last_checkpoint_at, s.dead_letters, r.group_id,
       (SELECT string_agg(t.table_name, ', ' ORDER BY t.target) FROM tidemark.targets t WHERE t.region = s.region)
FROM tidemark.region_status s JOIN tidemark.regions r USING (region) ORDER BY s.region
