-- The newest batches of a region, newest first, unpublished and rewound ones too; each with its last contribution.
SELECT b.seq, b.epoch, b.kind, b.state, b.records, b.rows_moved, b.dead_letters_moved, b.spans, b.claimed,
       b.planned_at, (SELECT max(c.contributed_at) FROM tidemark.contributions c
                      WHERE c.region = b.region AND c.seq = b.seq), b.published_at
FROM tidemark.batches b
WHERE b.region = %(region)s ORDER BY b.seq DESC LIMIT %(limit)s
