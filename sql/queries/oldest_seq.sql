-- The oldest checkpoint that can be restored; 0 while none was pruned.
SELECT oldest_seq FROM tidemark.regions WHERE region = %(region)s
