-- A seq is given out once.
UPDATE tidemark.regions SET next_seq = next_seq + 1 WHERE region = %(region)s RETURNING next_seq - 1
