-- What a member has staged for the batch.
INSERT INTO tidemark.contributions (region, seq, member, attempts, targets, rows)
VALUES (%(region)s, %(seq)s, %(member)s, %(attempts)s, %(targets)s::text[], %(rows)s::bigint[]) RETURNING contribution
