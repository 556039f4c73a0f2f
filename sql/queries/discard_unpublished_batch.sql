-- The unpublished batch dies with its epoch; its spans and contributions go with it.
DELETE FROM tidemark.batches WHERE region = %(region)s AND state = 'planned' RETURNING seq
