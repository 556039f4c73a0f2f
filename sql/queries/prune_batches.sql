-- Dead letters are kept, and the batches that they came with.
DELETE FROM tidemark.batches b
WHERE b.region = %(region)s AND b.seq < %(oldest)s AND b.state <> 'planned'
  AND NOT EXISTS (SELECT FROM tidemark.spans s
                  WHERE s.region = %(region)s AND s.seq < %(oldest)s AND s.seq = b.seq)
  AND NOT EXISTS (SELECT FROM tidemark.dead_letters d
                  WHERE d.region = %(region)s AND d.seq < %(oldest)s AND d.seq = b.seq)
