-- The output topic: what was sent, and what is withheld.

-- name: forget_sent
-- What was read back as sent, or rewound before it was, is never sent again.
DELETE FROM tidemark.outbox WHERE region = %(region)s AND seq <= %(seq)s

-- name: history
-- What the ledger knows of a region's output beside its batches.
SELECT r.oldest_seq, r.sent_seq, r.sending_seq, r.head_seq FROM tidemark.regions r WHERE r.region = %(region)s

-- name: kept_records
-- What a batch of an upsert sends of one target, in order.
SELECT o.key, o.value FROM tidemark.outbox o
WHERE o.region = %(region)s AND o.seq = %(seq)s AND o.target = %(target)s ORDER BY o.number

-- name: knows_batch
-- Whether the batch that was sent is one of this ledger: what is rewound stays sent.
SELECT EXISTS (SELECT FROM tidemark.batches b
               WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.uuid = %(uuid)s AND b.state <> 'planned')

-- name: merged_checkpoint
-- Partition -> next offset, quiet partitions included, with the epoch and head they belong to, and what the newest run
-- sends: one snapshot.
WITH r AS MATERIALIZED (
    SELECT g.region, g.epoch, g.head_seq, (SELECT json_object_agg(f.key, f.value) FROM json_each_text(g.fingerprint) f
           WHERE starts_with(f.key, 'output.') OR f.key = 'dead_letters.topic') AS sends
    FROM tidemark.regions g WHERE g.region = %(region)s
)
SELECT r.epoch, r.head_seq, p.topic, p.partition, p.next_offset, r.sends
FROM r LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
ORDER BY p.topic, p.partition

-- name: newest_up_to
-- The newest batch up to a seq, published or rewound.
SELECT b.seq, b.uuid::text FROM tidemark.batches b
WHERE b.region = %(region)s AND b.seq <= %(seq)s AND b.state <> 'planned' ORDER BY b.seq DESC LIMIT 1

-- name: raise_next_seq
-- Seqs that an output topic names already are never given out, also by a ledger from before them.
UPDATE tidemark.regions SET next_seq = %(seq)s + 1 WHERE region = %(region)s AND next_seq <= %(seq)s

-- name: unsent
-- What is published after a batch, and how many records that sends: of one target a row each, and each deleted key;
-- and its dead letters. What is withheld sends none.
SELECT b.seq, b.uuid::text, b.epoch,
       CASE WHEN b.withheld THEN 0 ELSE coalesce(t.rows_moved + t.rows_deleted, 0) END,
       CASE WHEN b.withheld OR NOT %(dead_letters)s THEN 0 ELSE b.dead_letters_moved - b.dead_letters_purged END,
       b.withheld
FROM tidemark.batches b
LEFT JOIN tidemark.batch_targets t ON t.region = b.region AND t.seq = b.seq AND t.target = %(target)s
WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published' ORDER BY b.seq

-- name: withheld_seqs
-- The batches that were withheld from the output topic and count, as far as checkpoints are retained.
SELECT b.seq FROM tidemark.batches b
WHERE b.region = %(region)s AND b.withheld AND b.state = 'published' ORDER BY b.seq

-- name: withhold
-- The lowest batch that is not sent yet, as Kafka tells and the ledger knows, is withheld: it is never sent. Nothing if
-- it is another one.
UPDATE tidemark.batches w SET withheld = true
WHERE w.region = %(region)s AND w.seq = %(seq)s
  AND w.seq = (SELECT min(b.seq) FROM tidemark.batches b JOIN tidemark.regions r USING (region)
               WHERE b.region = %(region)s AND b.seq > greatest(%(sent_seq)s, r.sent_seq)
                 AND b.state = 'published' AND NOT b.withheld)

-- name: withholding_is_under_way
-- A withholding of the region's own epoch that has read what was sent and not written the batch, or died in between.
SELECT EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'started' AND s.kind = 'withhold')

-- name: write_sending
-- Before a Kafka transaction that sends batches: if nobody hears how it ends, the topic's own records have to tell.
UPDATE tidemark.regions SET sending_seq = %(seq)s WHERE region = %(region)s AND sending_seq < %(seq)s

-- name: write_sent
-- What was read back as sent, by whomever, of this ledger's batches: later ones alone. Batches up to it may be pruned.
UPDATE tidemark.regions r SET sent_seq = b.seq FROM tidemark.batches b
WHERE r.region = %(region)s AND b.region = r.region AND b.seq = %(seq)s AND b.uuid = %(uuid)s
  AND coalesce(r.sent_seq, -1) < b.seq
