-- What is unpublished dies with its epoch; spans and contributions go with it.
DELETE FROM tidemark.batches WHERE region = %(region)s AND state = 'planned' RETURNING seq
