-- What keys were before checkpoints that can no longer be restored.
WITH columns AS (
    DELETE FROM tidemark.undo_columns WHERE region = %(region)s AND seq <= %(oldest)s
)
DELETE FROM tidemark.undo WHERE region = %(region)s AND seq <= %(oldest)s
