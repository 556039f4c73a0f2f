-- What a person did, for the record.
INSERT INTO tidemark.actions (region, kind, requested_by, why, details)
VALUES (%(region)s, %(kind)s, %(requested_by)s, %(why)s, %(details)s)
