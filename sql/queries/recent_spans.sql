-- What the batches from a seq on have read of each partition, rewound ones too.
SELECT s.seq, s.topic, s.partition, s.start_offset, s.end_offset
FROM tidemark.spans s JOIN tidemark.batches b ON b.region = s.region AND b.seq = s.seq
WHERE s.region = %(region)s AND s.seq >= %(seq)s
  AND b.region = %(region)s AND b.seq >= %(seq)s AND b.state <> 'planned' ORDER BY s.seq
