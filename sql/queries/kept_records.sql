-- What a batch of an upsert sends, in order.
SELECT o.key, o.value FROM tidemark.outbox o WHERE o.region = %(region)s AND o.seq = %(seq)s ORDER BY o.number
