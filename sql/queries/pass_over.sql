-- Told to leave out a corrupt range: the history ends at its start, a new one begins at its end.
WITH ended AS (
    UPDATE tidemark.partitions p SET ended_epoch = %(epoch)s, ended_seq = r.head_seq
    FROM tidemark.regions r
    WHERE r.region = %(region)s AND p.region = r.region AND p.topic = %(topic)s AND p.partition = %(partition)s
      AND p.ended_epoch IS NULL AND p.next_offset = %(start)s
    RETURNING p.region, p.topic, p.partition, p.topic_id
)
INSERT INTO tidemark.partitions (region, topic, partition, topic_id, initial_offset, next_offset)
SELECT region, topic, partition, topic_id, %(end)s, %(end)s FROM ended
