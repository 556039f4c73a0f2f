-- What was read back as sent, by whomever, of this ledger's batches: later ones alone. Batches up to it may be pruned.
UPDATE tidemark.regions r SET sent_seq = b.seq FROM tidemark.batches b
WHERE r.region = %(region)s AND b.region = r.region AND b.seq = %(seq)s AND b.uuid = %(uuid)s
  AND coalesce(r.sent_seq, -1) < b.seq
