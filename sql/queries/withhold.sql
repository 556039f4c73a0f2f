-- The lowest batch that is not sent yet, as Kafka tells and the ledger knows, is withheld: it is never sent. Nothing if
-- it is another one.
UPDATE tidemark.batches w SET withheld = true
WHERE w.region = %(region)s AND w.seq = %(seq)s
  AND w.seq = (SELECT min(b.seq) FROM tidemark.batches b JOIN tidemark.regions r USING (region)
               WHERE b.region = %(region)s AND b.seq > greatest(%(sent_seq)s, r.sent_seq)
                 AND b.state = 'published' AND NOT b.withheld)
