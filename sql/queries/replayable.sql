-- What `write_replay_letters` would choose, for a dry run.
DECLARE dead_letters_export NO SCROLL CURSOR FOR
WITH meant AS MATERIALIZED (
    SELECT r.partition_id, r."offset", r.kept_seq
    FROM tidemark.replayable(%(region)s, %(reasons)s::text[], %(since)s::timestamptz, %(until)s::timestamptz,
                             %(only_topic)s, %(only_partition)s::int) r
    ORDER BY r.kept_seq NULLS FIRST, r.partition_id, r."offset" LIMIT %(limit)s
)
SELECT d.seq, d.topic, d.partition, d."offset", d.timestamp_ms, d.key, d.value, d.headers, d.reason, d.detail,
       d.hash, d.whole_bytes, d.refused_rows, b.published_at, d.replayed_seq, (SELECT count(*) FROM meant)
FROM meant m JOIN tidemark.dead_letters d USING (partition_id, "offset") JOIN tidemark.batches b USING (region, seq)
