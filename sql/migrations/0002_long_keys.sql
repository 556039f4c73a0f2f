-- An index has no room for a text of more than 2,704 bytes, and the target's own index may take a little more than the
-- ledger's, which hold the region beside it. So a key of more than 2,000 bytes is kept as its digest. No key has a null,
-- so none is taken for a digest.

-- Nobody decides meanwhile, and an older version that is at work is fenced where it would look for the whole text.
SELECT count(*) FROM (SELECT FROM tidemark.regions ORDER BY region FOR NO KEY UPDATE) AS all_of_them;

WITH changed AS (
    UPDATE tidemark.undo SET key = ARRAY[NULL, encode(sha256(convert_to(key::text, 'UTF8')), 'hex')]
    WHERE octet_length(array_to_string(key, '')) > 2000 RETURNING region
) UPDATE tidemark.regions SET epoch = epoch + 1 WHERE region IN (SELECT region FROM changed);

WITH changed AS (
    UPDATE tidemark.deleted_keys SET key = ARRAY[NULL, encode(sha256(convert_to(key::text, 'UTF8')), 'hex')]
    WHERE octet_length(array_to_string(key, '')) > 2000 RETURNING region
) UPDATE tidemark.regions SET epoch = epoch + 1 WHERE region IN (SELECT region FROM changed);

-- An older version that keeps the whole text is refused. The rows that are there are not read once more.
ALTER TABLE tidemark.undo ADD CONSTRAINT a_long_key_is_kept_as_its_digest
    CHECK (octet_length(array_to_string(key, '')) <= 2000) NOT VALID;
ALTER TABLE tidemark.deleted_keys ADD CONSTRAINT a_long_key_is_kept_as_its_digest
    CHECK (octet_length(array_to_string(key, '')) <= 2000) NOT VALID;
