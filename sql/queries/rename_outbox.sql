-- The outbox refers to no other table.
UPDATE tidemark.outbox SET region = %(new)s WHERE region = %(region)s
