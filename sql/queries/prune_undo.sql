-- What keys were before checkpoints that can no longer be restored.
DELETE FROM tidemark.undo WHERE region = %(region)s AND seq <= %(oldest)s
