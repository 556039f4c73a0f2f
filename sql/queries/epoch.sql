-- A look, without lock.
SELECT epoch FROM tidemark.regions WHERE region = %(region)s
