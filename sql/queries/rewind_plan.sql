-- What a rewind to a seq meets: is there such a checkpoint, and histories that can't be read again.
SELECT %(seq)s = 0 OR EXISTS (SELECT FROM tidemark.batches b
           WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'),
       (SELECT count(*) FROM tidemark.batches b
        WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'),
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.seq > %(seq)s),
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.replayed_seq > %(seq)s),
       ARRAY(SELECT DISTINCT p.topic || '[' || p.partition || ']' FROM tidemark.partitions p
             WHERE p.region = %(region)s AND p.ended_epoch IS NOT NULL
               AND EXISTS (SELECT FROM tidemark.spans s
                           WHERE s.partition_id = p.partition_id AND s.live AND s.seq > %(seq)s))
