-- Told to leave out a corrupt range: the history ends at its start, a new one begins at its end.
WITH ended AS (
    UPDATE tidemark.partitions SET ended_epoch = %(epoch)s
    WHERE region = %(region)s AND topic = %(topic)s AND partition = %(partition)s
      AND ended_epoch IS NULL AND next_offset = %(start)s
    RETURNING region, topic, partition, topic_id
)
INSERT INTO tidemark.partitions (region, topic, partition, topic_id, initial_offset, next_offset)
SELECT region, topic, partition, topic_id, %(end)s, %(end)s FROM ended
