-- The lowest batch that is not sent yet is withheld: it is never sent. Nothing if it is another one.
UPDATE tidemark.batches w SET withheld = true
WHERE w.region = %(region)s AND w.seq = %(seq)s
  AND w.seq = (SELECT min(b.seq) FROM tidemark.batches b
               WHERE b.region = %(region)s AND b.seq > %(sent_seq)s AND b.state = 'published' AND NOT b.withheld)
