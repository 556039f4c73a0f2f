-- The newest batch up to a seq, published or rewound.
SELECT b.seq, b.uuid::text FROM tidemark.batches b
WHERE b.region = %(region)s AND b.seq <= %(seq)s AND b.state <> 'planned' ORDER BY b.seq DESC LIMIT 1
