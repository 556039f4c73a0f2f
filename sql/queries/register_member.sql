-- A member's number keys its staged rows; it is never given twice.
INSERT INTO tidemark.members (region, epoch, uuid, name)
VALUES (%(region)s, %(epoch)s, %(uuid)s, %(name)s) RETURNING member
