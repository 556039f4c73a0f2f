-- Dead letters, newest first; a limit of null is none.
SELECT seq, topic, partition, "offset", timestamp_ms, key, value, headers, reason, detail, refused_rows
FROM tidemark.dead_letters WHERE region = %(region)s
ORDER BY seq DESC, topic, partition, "offset" DESC LIMIT %(limit)s
