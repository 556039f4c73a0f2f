-- Of the newest checkpoints, seconds from plan to publish, from plan to the last contribution, and from that on.
SELECT extract(epoch FROM b.published_at - b.planned_at)::float8,
       extract(epoch FROM c.last_at - b.planned_at)::float8,
       extract(epoch FROM b.published_at - c.last_at)::float8
FROM (SELECT seq, planned_at, published_at FROM tidemark.batches
      WHERE region = %(region)s AND state = 'published' AND kind = 'drain'
      ORDER BY seq DESC LIMIT %(most)s) b
CROSS JOIN LATERAL (SELECT max(contributed_at) AS last_at FROM tidemark.contributions
                    WHERE region = %(region)s AND seq = b.seq) c
WHERE b.published_at > clock_timestamp() - make_interval(secs => %(seconds)s) AND c.last_at IS NOT NULL
