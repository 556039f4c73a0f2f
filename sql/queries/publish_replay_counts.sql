-- The batches that the dead letters came with count those that were replayed.
UPDATE tidemark.batches b SET dead_letters_replayed = b.dead_letters_replayed + g.letters
FROM (SELECT seq, count(*) AS letters FROM tidemark.dead_letters
      WHERE region = %(region)s AND replayed_seq = %(seq)s GROUP BY seq) g
WHERE b.region = %(region)s AND b.seq = g.seq
