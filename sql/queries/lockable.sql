-- The region, unless a transaction that decides has it at this moment; two that look are not in each other's way.
SELECT region FROM tidemark.regions WHERE region = %(region)s FOR SHARE SKIP LOCKED
