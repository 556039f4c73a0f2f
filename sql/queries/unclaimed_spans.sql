-- The contribution that claims the last one publishes.
SELECT count(*) FROM tidemark.spans
WHERE region = %(region)s AND seq = %(seq)s AND contribution IS NULL
