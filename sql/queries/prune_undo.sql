-- What keys were before checkpoints that can no longer be restored.
WITH columns AS (
    DELETE FROM tidemark.undo_columns WHERE region = %(region)s AND seq <= %(oldest)s RETURNING target, seq
), targets AS (
    UPDATE tidemark.targets t SET undo_pruned_seq = c.seq
    FROM (SELECT target, max(seq) AS seq FROM columns GROUP BY target) c
    WHERE t.region = %(region)s AND t.target = c.target
)
DELETE FROM tidemark.undo WHERE region = %(region)s AND seq <= %(oldest)s
