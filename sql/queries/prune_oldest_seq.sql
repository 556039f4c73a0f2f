-- Older checkpoints can no longer be restored.
UPDATE tidemark.regions SET oldest_seq = %(oldest)s
WHERE region = %(region)s AND oldest_seq < %(oldest)s AND head_seq >= %(oldest)s
