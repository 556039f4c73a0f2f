-- What the ledger has of a region.
SELECT (SELECT count(*) FROM tidemark.partitions p WHERE p.region = %(region)s),
       (SELECT count(*) FROM tidemark.batches b WHERE b.region = %(region)s),
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = %(region)s)
