-- What refers to the region follows. A region that had the new name before has left epochs and seqs behind.
UPDATE tidemark.regions r SET region = %(new)s,
    epoch = greatest(r.epoch, g.epoch) + 1, next_seq = greatest(r.next_seq, g.next_seq)
FROM (SELECT max((a.details->>'epoch')::bigint) AS epoch, max((a.details->>'next_seq')::bigint) AS next_seq
      FROM tidemark.actions a WHERE a.region = %(new)s AND a.kind IN ('drop', 'rename')) g
WHERE r.region = %(region)s RETURNING r.epoch
