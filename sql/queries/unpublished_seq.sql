-- The batch that is planned and not published, if there is one.
SELECT seq, epoch FROM tidemark.batches WHERE region = %(region)s AND state = 'planned'
