-- The newest dead letters, of key and value the first bytes and how many there are.
SELECT n.seq, b.published_at, n.topic, n.partition, n."offset", n.timestamp_ms, n.reason, n.detail,
       substring(n.key FROM 1 FOR %(bytes)s), octet_length(n.key),
       substring(n.value FROM 1 FOR %(bytes)s), octet_length(n.value), left(n.refused_rows::text, %(bytes)s), n.whole_bytes
FROM (SELECT d.* FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.replayed_seq IS NULL
      ORDER BY d.seq DESC LIMIT %(limit)s) n
JOIN tidemark.batches b ON b.region = n.region AND b.seq = n.seq
ORDER BY n.seq DESC, n.topic, n.partition, n."offset" DESC
