-- Topics that the region's newest run reads: the next one reads others only if a person accepts that.
SELECT DISTINCT t.topic FROM tidemark.run_targets t
WHERE t.region = %(region)s AND t.epoch = (SELECT max(r.epoch) FROM tidemark.runs r WHERE r.region = %(region)s)
