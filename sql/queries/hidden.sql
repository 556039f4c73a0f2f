-- Offsets that a transaction hides which was open at an earlier open already, and the time of the first of these.
SELECT coalesce(lso_lag, 0), lso_stuck_since FROM tidemark.region_status WHERE region = %(region)s
