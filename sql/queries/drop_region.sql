-- Everything that the ledger has of a region goes; its actions stay.
WITH letters AS (DELETE FROM tidemark.dead_letters WHERE region = %(region)s RETURNING 1),
     keys AS (DELETE FROM tidemark.deleted_keys WHERE region = %(region)s),
     undo AS (DELETE FROM tidemark.undo WHERE region = %(region)s),
     outbox AS (DELETE FROM tidemark.outbox WHERE region = %(region)s),
     spans AS (DELETE FROM tidemark.spans WHERE region = %(region)s),
     contributions AS (DELETE FROM tidemark.contributions WHERE region = %(region)s),
     batches AS (DELETE FROM tidemark.batches WHERE region = %(region)s RETURNING 1),
     members AS (DELETE FROM tidemark.members WHERE region = %(region)s),
     runs AS (DELETE FROM tidemark.runs WHERE region = %(region)s),
     resets AS (DELETE FROM tidemark.resets WHERE region = %(region)s),
     partitions AS (DELETE FROM tidemark.partitions WHERE region = %(region)s RETURNING 1),
     regions AS (DELETE FROM tidemark.regions WHERE region = %(region)s)
SELECT (SELECT count(*) FROM partitions), (SELECT count(*) FROM batches), (SELECT count(*) FROM letters)
