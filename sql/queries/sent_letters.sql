-- The dead letters of a batch as they are sent, in the order of their records; also those that became rows since.
DECLARE tidemark_letters NO SCROLL CURSOR FOR
SELECT d.topic, d.partition, d."offset", d.timestamp_ms, d.reason, d.detail, d.hash, d.whole_bytes, d.key, d.value, d.headers
FROM tidemark.dead_letters d
WHERE d.region = %(region)s AND d.seq = %(seq)s ORDER BY d.topic, d.partition, d."offset"
