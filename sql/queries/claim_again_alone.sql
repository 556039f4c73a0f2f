-- The contributions that the spans had before.
DELETE FROM tidemark.contributions
WHERE region = %(region)s AND seq = %(seq)s AND contribution <> %(contribution)s
