-- What a batch of an upsert sends of one target, in order.
SELECT o.key, o.value FROM tidemark.outbox o
WHERE o.region = %(region)s AND o.seq = %(seq)s AND o.target = %(target)s ORDER BY o.number
