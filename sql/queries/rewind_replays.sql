-- What a replay after the checkpoint made of dead letters goes: they are dead letters again.
WITH again AS (
    UPDATE tidemark.dead_letters SET replayed_seq = NULL, chosen_seq = NULL
    WHERE region = %(region)s AND replayed_seq > %(seq)s RETURNING seq
), counted AS (
    UPDATE tidemark.batches b SET dead_letters_replayed = b.dead_letters_replayed - g.letters
    FROM (SELECT seq, count(*) AS letters FROM again GROUP BY seq) g
    WHERE b.region = %(region)s AND b.seq = g.seq
)
SELECT count(*) FROM again
