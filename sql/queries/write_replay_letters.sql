-- The dead letters that a replay chooses, those first that none has tried, and the spans that they lie in.
WITH meant AS (
    SELECT r.partition_id, r."offset"
    FROM tidemark.replayable(%(region)s, %(reasons)s::text[], %(since)s::timestamptz, %(until)s::timestamptz,
                             %(only_topic)s, %(only_partition)s::int) r
    ORDER BY r.kept_seq NULLS FIRST, r.partition_id, r."offset" LIMIT %(limit)s
), chosen AS (
    UPDATE tidemark.dead_letters d SET chosen_seq = %(seq)s FROM meant m
    WHERE d.partition_id = m.partition_id AND d."offset" = m."offset"
    RETURNING d.topic, d.partition, d."offset"
)
SELECT topic, partition, min("offset"), upper(int8range(min("offset"), max("offset"), '[]')), count(*)
FROM chosen GROUP BY topic, partition ORDER BY topic, partition
