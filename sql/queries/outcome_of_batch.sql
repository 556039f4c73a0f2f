-- What became of a batch whose COMMIT had no answer.
SELECT CASE
    WHEN b.state <> 'planned' THEN 'published'
    WHEN EXISTS (SELECT FROM tidemark.contributions c
        WHERE c.region = b.region AND c.seq = b.seq AND c.member = %(member)s) THEN 'contributed'
    ELSE 'planned'
END
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq = %(seq)s
