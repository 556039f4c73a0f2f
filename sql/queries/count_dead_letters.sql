-- What the batch's claimed spans counted; before a small batch, the newest checkpoints; the run's limits.
SELECT own.records, own.dead_letters, before.records, before.dead_letters,
       r.dead_letters_max_ratio, r.dead_letters_max_count
FROM tidemark.runs r,
LATERAL (SELECT sum(s.records)::bigint, sum(s.dead_letters)::bigint
         FROM tidemark.spans s WHERE s.region = r.region AND s.seq = %(seq)s) AS own (records, dead_letters),
LATERAL (SELECT coalesce(sum(n.records), 0)::bigint, coalesce(sum(n.dead_letters), 0)::bigint
         FROM (SELECT b.records, b.dead_letters_moved AS dead_letters,
                      own.records + sum(b.records) OVER (ORDER BY b.seq DESC) - b.records AS newer
               FROM (SELECT seq, records, dead_letters_moved FROM tidemark.batches
                     WHERE region = r.region AND state = 'published' AND kind = 'drain'
                     ORDER BY seq DESC LIMIT %(judged_from)s) b) n
         WHERE n.newer <= %(judged_from)s) AS before (records, dead_letters)
WHERE r.region = %(region)s AND r.epoch = %(epoch)s
