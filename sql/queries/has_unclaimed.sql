-- The contribution that claims the last span publishes.
SELECT claimed < spans FROM tidemark.batches WHERE region = %(region)s AND seq = %(seq)s
