-- Claims on unpublished batches, and the publish.

-- name: advance_head
-- The last update of a publish; it must touch exactly one row: the batch before this one is the head.
UPDATE tidemark.regions r SET head_seq = b.seq, consecutive_resets = 0
FROM tidemark.batches b
WHERE r.region = %(region)s AND r.epoch = %(epoch)s
  AND b.region = r.region AND b.seq = %(seq)s AND b.previous_seq = r.head_seq

-- name: advance_partitions
-- Compare-and-set of every partition; raises on the server.
SELECT tidemark.advance_partitions(%(region)s, %(seq)s)

-- name: claim_count
-- So many more of the batch's spans are claimed.
UPDATE tidemark.batches SET claimed = claimed + %(claimed)s WHERE region = %(region)s AND seq = %(seq)s

-- name: claim_spans
-- Each span still unclaimed; the caller compares the count: all or none. Each is looked up by its key, however
-- wide the batch is: of spans that were just planned Postgres has no statistics, and takes them for one row. Where
-- the look-up says `live`, it takes the indexes of live spans, and reads half of the region for each.
UPDATE tidemark.spans s
SET contribution = %(contribution)s, attempt = c.attempt, records = c.records, dead_letters = c.dead_letters,
    bytes = c.bytes, record_end = c.record_end, leader_epoch = c.leader_epoch
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[],
            %(attempts)s::bigint[], %(records)s::bigint[], %(dead_letters)s::bigint[],
            %(bytes)s::bigint[], %(record_ends)s::bigint[], %(leader_epochs)s::int[])
    AS c (topic, partition, start_offset, end_offset, attempt, records, dead_letters, bytes, record_end, leader_epoch)
CROSS JOIN LATERAL (SELECT n.ctid, n.live FROM tidemark.spans n
                    WHERE n.region = %(region)s AND n.seq = %(seq)s AND n.topic = c.topic
                      AND n.partition = c.partition AND n.contribution IS NULL
                      AND n.start_offset = c.start_offset AND n.end_offset = c.end_offset LIMIT 1) AS found
WHERE s.ctid = found.ctid AND found.live

-- name: commonest_reasons
-- Why records of a batch became dead letters: count and first record of the commonest reasons.
SELECT CASE WHEN refused_rows IS NULL THEN reason ELSE reason || ' (' || detail || ')' END,
       count(*), (array_agg(topic || '[' || partition || ']@' || "offset" ORDER BY topic, partition, "offset"))[1]
FROM tidemark.dead_letters WHERE region = %(region)s AND seq = %(seq)s
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3

-- name: contributed_rows
-- Rows of one target that the contributions of a batch have staged, as they counted them.
SELECT coalesce(sum(r.rows), 0)::bigint FROM tidemark.contributions c, unnest(c.targets, c.rows) AS r (target, rows)
WHERE c.region = %(region)s AND c.seq = %(seq)s AND r.target = %(target)s

-- name: count_dead_letters
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

-- name: keep_key
-- The first publish keeps what texts the values of a key have; from then on a column of it has no others.
UPDATE tidemark.targets t SET key_forms = %(forms)s
WHERE t.region = %(region)s AND t.target = %(target)s AND NOT EXISTS (
    SELECT FROM jsonb_each(t.key_forms) AS known JOIN jsonb_each(%(forms)s) AS found USING (key)
    WHERE known.value <> found.value)

-- name: keep_target
-- The first publish keeps which table bears the target's name; from then on only that one counts.
UPDATE tidemark.targets t SET table_oid = c.oid
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.region = %(region)s AND t.target = %(target)s AND n.nspname = %(schema)s AND c.relname = %(table)s
  AND coalesce(t.table_oid, c.oid) = c.oid

-- name: outcome_of_batch
-- What became of a batch whose COMMIT had no answer. A member may have contributed other spans of it before.
SELECT CASE
    WHEN b.state <> 'planned' THEN 'published'
    WHEN EXISTS (SELECT FROM tidemark.spans s JOIN tidemark.contributions c USING (contribution)
        WHERE s.region = b.region AND s.seq = b.seq AND s.topic = %(topic)s AND s.partition = %(partition)s
          AND c.member = %(member)s) THEN 'contributed'
    ELSE 'planned'
END
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq = %(seq)s

-- name: publish_batch
-- The named CHECK constraints refuse a batch whose moved counts differ from the contributed ones.
UPDATE tidemark.batches b
SET state = 'published', published_at = clock_timestamp(),
    records = (SELECT sum(s.records) FROM tidemark.spans s WHERE s.region = b.region AND s.seq = b.seq),
    rows_contributed = (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.rows) AS r (rows)
                        WHERE c.region = b.region AND c.seq = b.seq),
    (rows_moved, rows_refused, rows_deleted, rows_superseded) = (
        SELECT coalesce(sum(t.rows_moved), 0), coalesce(sum(t.rows_refused), 0), coalesce(sum(t.rows_deleted), 0),
               coalesce(sum(t.rows_superseded), 0)
        FROM tidemark.batch_targets t WHERE t.region = b.region AND t.seq = b.seq),
    records_refused = %(records_refused)s,
    dead_letters_contributed = (SELECT sum(s.dead_letters) FROM tidemark.spans s
                                WHERE s.region = b.region AND s.seq = b.seq),
    dead_letters_moved = %(dead_letters_moved)s,
    drain_seconds = (SELECT CASE WHEN count(*) = count(c.seconds) THEN max(c.seconds) END
                     FROM tidemark.contributions c WHERE c.region = b.region AND c.seq = b.seq),
    publish_seconds = %(publish_seconds)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.epoch = %(epoch)s AND b.state = 'planned'
RETURNING records

-- name: published_in
-- What an epoch has published.
SELECT count(*), coalesce(sum(rows_moved), 0)::bigint,
       coalesce(sum(dead_letters_moved), 0)::bigint, coalesce(sum(records), 0)::bigint
FROM tidemark.batches WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'published'

-- name: winners
-- The staged rows that count, over all members.
SELECT c.member, a.attempt FROM tidemark.contributions c, unnest(c.attempts) AS a (attempt)
WHERE c.region = %(region)s AND c.seq = %(seq)s

-- name: write_contribution
-- What a member has staged for the batch.
INSERT INTO tidemark.contributions (region, seq, member, attempts, targets, rows, seconds)
VALUES (%(region)s, %(seq)s, %(member)s, %(attempts)s, %(targets)s::text[], %(rows)s::bigint[], %(seconds)s)
RETURNING contribution

-- name: write_moved
-- What became of each target's rows, beside what the contributions counted of it.
INSERT INTO tidemark.batch_targets
    (region, seq, target, rows_contributed, rows_moved, rows_refused, rows_deleted, rows_superseded, key)
SELECT %(region)s, %(seq)s, m.target,
       (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.targets, c.rows) AS r (target, rows)
        WHERE c.region = %(region)s AND c.seq = %(seq)s AND r.target = m.target),
       m.rows, m.refused_rows, m.deleted, m.superseded, m.key
FROM jsonb_to_recordset(%(moved)s) AS m (target text, rows bigint, refused_rows bigint, deleted bigint,
                                         superseded bigint, key text[])
