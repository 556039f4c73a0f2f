-- What is left of the chosen dead letters became rows: each by compare-and-set.
UPDATE tidemark.dead_letters SET replayed_seq = %(seq)s
WHERE region = %(region)s AND chosen_seq = %(seq)s AND replayed_seq IS NULL
