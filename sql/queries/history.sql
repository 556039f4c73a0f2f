-- What the ledger knows of a region's output.
SELECT EXISTS (SELECT FROM tidemark.batches b WHERE b.region = r.region AND b.state <> 'planned'),
       r.oldest_seq, r.sent_seq, r.head_seq
FROM tidemark.regions r WHERE r.region = %(region)s
