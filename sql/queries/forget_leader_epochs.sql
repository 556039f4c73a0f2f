-- Told to go on: whether the log was rewritten before the next offset is not asked any more.
UPDATE tidemark.partitions SET record_end = NULL, leader_epoch = NULL WHERE region = %(region)s
