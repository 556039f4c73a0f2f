-- Undo refers to no other table.
UPDATE tidemark.undo SET region = %(new)s WHERE region = %(region)s
