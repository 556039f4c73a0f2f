-- The dead letters of a batch go, but those that a replay has made rows of.
DELETE FROM tidemark.dead_letters WHERE region = %(region)s AND seq = %(seq)s AND replayed_seq IS NULL
