-- What a member has staged for the batch.
INSERT INTO tidemark.contributions (region, seq, member, attempts, rows)
VALUES (%(region)s, %(seq)s, %(member)s, %(attempts)s, %(rows)s) RETURNING contribution
