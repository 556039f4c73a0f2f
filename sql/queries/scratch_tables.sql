-- Scratch tables of every verify in this database. Their names begin with a character that no
-- region's name has, so that retiring a region never meets them.
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'tidemark_staging' AND c.relkind = 'r' AND c.relname ~ '^#verify_[0-9a-f]{8}_'
ORDER BY 1
