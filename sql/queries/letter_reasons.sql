-- The reasons that a region's dead letters have.
SELECT DISTINCT reason FROM tidemark.dead_letters WHERE region = %(region)s ORDER BY reason
