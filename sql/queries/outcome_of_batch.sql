-- What became of a batch whose COMMIT had no answer. A member may have contributed other spans of it before.
SELECT CASE
    WHEN b.state <> 'planned' THEN 'published'
    WHEN EXISTS (SELECT FROM tidemark.spans s JOIN tidemark.contributions c USING (contribution)
        WHERE s.region = b.region AND s.seq = b.seq AND s.topic = %(topic)s AND s.partition = %(partition)s
          AND c.member = %(member)s) THEN 'contributed'
    ELSE 'planned'
END
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq = %(seq)s
