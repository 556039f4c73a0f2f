-- A reset by hand clears the count of consecutive ones; the DAG's own adds to it.
UPDATE tidemark.regions
SET consecutive_resets = CASE WHEN %(by_hand)s THEN 0 ELSE consecutive_resets + 1 END
WHERE region = %(region)s
