-- The batches that are planned and not published, the lowest first.
SELECT seq, epoch, spans, claimed = spans FROM tidemark.batches
WHERE region = %(region)s AND state = 'planned' ORDER BY seq
