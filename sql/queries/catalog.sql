-- Postgres' own catalog: tables, columns, rights.

-- name: find_acting
-- Foreign keys that delete or change rows if one of a table, or of a partition of it, is deleted.
SELECT DISTINCT child_schema.nspname, child.relname, k.conname
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
CROSS JOIN LATERAL (SELECT class.oid AS relid UNION SELECT relid::oid FROM pg_catalog.pg_partition_tree(class.oid)) AS part
JOIN pg_catalog.pg_constraint AS k ON k.confrelid = part.relid
JOIN pg_catalog.pg_class AS child ON child.oid = k.conrelid
JOIN pg_catalog.pg_namespace AS child_schema ON child_schema.oid = child.relnamespace
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND k.contype = 'f' AND k.conparentid = 0 AND k.confdeltype IN ('c', 'n', 'd')
ORDER BY 1, 2, 3

-- name: find_columns
-- The columns of a table. A domain counts as the type below it, whose values it holds. The last
-- column: whether a cast makes a value of every text, or refuses it, and loses nothing.
SELECT attribute.attname,
       CASE type.typtype
           WHEN 'd' THEN format_type(type.typbasetype, type.typtypmod)
           ELSE format_type(attribute.atttypid, attribute.atttypmod)
       END,
       attribute.attnotnull,
       (attribute.atthasdef AND attribute.attgenerated = '') OR type.typdefault IS NOT NULL,
       attribute.attidentity,
       attribute.attgenerated,
       has_column_privilege(class.oid, attribute.attnum, 'INSERT'),
       (SELECT conname FROM pg_catalog.pg_constraint
        WHERE conrelid = class.oid AND contype = 'p' AND attribute.attnum = ANY (conkey)),
       item.typtype = 'e' OR item.typname IN
           ('uuid', 'inet', 'cidr', 'macaddr', 'macaddr8', 'json', 'jsonb', 'citext', 'int4range', 'int8range',
            'numrange', 'int4multirange', 'int8multirange', 'nummultirange', 'pg_lsn', 'point', 'lseg', 'path',
            'polygon', 'circle')
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid
JOIN pg_catalog.pg_type AS type ON type.oid = attribute.atttypid
JOIN pg_catalog.pg_type AS base
    ON base.oid = CASE type.typtype WHEN 'd' THEN type.typbasetype ELSE type.oid END
JOIN pg_catalog.pg_type AS item
    ON item.oid = CASE base.typcategory WHEN 'A' THEN base.typelem ELSE base.oid END
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum

-- name: find_interfering
-- Triggers and rules that can keep rows: those that fire in an ordinary session. A partition may have triggers of
-- its own. In tgtype 1 is FOR EACH ROW and 2 is BEFORE.
WITH parts AS (
    SELECT class.oid FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
), tables AS (
    SELECT oid FROM parts
    UNION SELECT relid FROM parts CROSS JOIN LATERAL pg_partition_tree(parts.oid)
)
SELECT DISTINCT 'trigger', tgname FROM pg_catalog.pg_trigger
WHERE tgrelid IN (SELECT oid FROM tables) AND NOT tgisinternal AND tgenabled IN ('O', 'A')
  AND (tgtype & 1) <> 0 AND (tgtype & 2) <> 0 AND (tgtype & %(triggers)s) <> 0
UNION ALL
SELECT 'rule', rulename FROM pg_catalog.pg_rewrite
WHERE ev_class IN (SELECT oid FROM parts) AND is_instead AND ev_enabled IN ('O', 'A')
  AND ev_type = ANY (%(rules)s::"char"[])
ORDER BY 1, 2

-- name: find_parts
-- What lies below a table, however deep, and takes part in its statements but not in all that they need: foreign
-- tables, UNLOGGED ones, and those that inherit without being partitions. A temporary one is another session's.
WITH RECURSIVE below AS (
    SELECT class.oid AS parent, class.oid FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
    UNION
    SELECT inherits.inhparent, inherits.inhrelid
    FROM below JOIN pg_catalog.pg_inherits AS inherits ON inherits.inhparent = below.oid
)
SELECT namespace.nspname, class.relname, above.nspname, parent.relname, class.relkind = 'f',
       class.relkind = 'r' AND class.relpersistence = 'u', class.relispartition
FROM below
JOIN pg_catalog.pg_class AS class ON class.oid = below.oid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_class AS parent ON parent.oid = below.parent
JOIN pg_catalog.pg_namespace AS above ON above.oid = parent.relnamespace
WHERE below.oid <> below.parent AND class.relpersistence <> 't'
  AND (class.relkind = 'f' OR class.relkind = 'r' AND class.relpersistence = 'u' OR NOT class.relispartition)
ORDER BY 1, 2

-- name: find_references
-- Foreign keys between tables of a list, by their places in it; also of a table to itself. RESTRICT does not wait,
-- whatever the key says of itself.
SELECT k.conname, child.place - 1, parent.place - 1,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey)),
       k.condeferrable AND 'r' NOT IN (k.confdeltype, k.confupdtype),
       k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd')
FROM unnest(%(tables)s::text[]) WITH ORDINALITY AS child (name, place)
JOIN pg_catalog.pg_constraint k ON k.conrelid = to_regclass(child.name)
JOIN unnest(%(tables)s::text[]) WITH ORDINALITY AS parent (name, place) ON k.confrelid = to_regclass(parent.name)
WHERE k.contype = 'f'
ORDER BY k.conname

-- name: find_relation
-- What bears the name, whether it outlives a crash, and whether rows of it may be hidden from us.
SELECT relkind, relpersistence, has_schema_privilege(relnamespace, 'USAGE'),
       row_security_active(oid), current_user
FROM pg_catalog.pg_class
WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s)
  AND relname = %(table)s

-- name: find_rights
-- Who we are and what we may do in a schema; nulls where it does not exist.
SELECT current_user, has_schema_privilege(nspname, 'USAGE'), has_schema_privilege(nspname, 'CREATE')
FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_namespace ON nspname = %(schema)s

-- name: find_table_rights
-- What the current user may do with the rows of a table.
SELECT has_table_privilege(%(table)s::regclass, 'SELECT'),
       has_table_privilege(%(table)s::regclass, 'INSERT'),
       has_table_privilege(%(table)s::regclass, 'DELETE'),
       has_table_privilege(%(table)s::regclass, 'UPDATE')

-- name: find_unidentified
-- Tables at or below a table whose rows nothing tells apart, and publications that send their deletions or updates:
-- Postgres refuses these. A publication of what a table is a partition of counts, too.
WITH RECURSIVE below AS (
    SELECT class.oid FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
    UNION
    SELECT inherits.inhrelid FROM below JOIN pg_catalog.pg_inherits AS inherits ON inherits.inhparent = below.oid
)
SELECT namespace.nspname, class.relname, array_agg(pub.pubname::text ORDER BY pub.pubname)
FROM below
JOIN pg_catalog.pg_class AS class ON class.oid = below.oid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_publication AS pub ON (%(deletes)s AND pub.pubdelete OR %(updates)s AND pub.pubupdate)
    AND (pub.puballtables OR EXISTS (
        SELECT FROM (SELECT class.oid AS relid UNION SELECT relid::oid FROM pg_partition_ancestors(class.oid)) AS own
        JOIN pg_catalog.pg_class AS above ON above.oid = own.relid
        LEFT JOIN pg_catalog.pg_publication_rel AS rel ON rel.prpubid = pub.oid AND rel.prrelid = above.oid
        LEFT JOIN pg_catalog.pg_publication_namespace AS nsp ON nsp.pnpubid = pub.oid AND nsp.pnnspid = above.relnamespace
        WHERE rel.oid IS NOT NULL OR nsp.oid IS NOT NULL))
WHERE class.relkind = 'r' AND class.relpersistence = 'p' AND class.relreplident <> 'f'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_index AS idx
                  WHERE idx.indrelid = class.oid AND idx.indisvalid AND idx.indimmediate
                    AND CASE class.relreplident WHEN 'd' THEN idx.indisprimary WHEN 'i' THEN idx.indisreplident END)
GROUP BY 1, 2 ORDER BY 1, 2

-- name: find_unique_keys
-- Columns of each unique index that ON CONFLICT can use, in the order of their names, and whether equal values of
-- them have equal bytes: to the index, and to a join, which goes by the column's own collation.
SELECT array_agg(attribute.attname::text ORDER BY attribute.attname COLLATE "C"),
       bool_and(NOT EXISTS (
           SELECT FROM pg_catalog.pg_collation AS coll
           WHERE coll.oid IN (part.oid, attribute.attcollation) AND NOT coll.collisdeterministic))
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_index AS idx ON idx.indrelid = class.oid
CROSS JOIN LATERAL unnest(idx.indkey::int2[], idx.indcollation::oid[]) WITH ORDINALITY AS part (attnum, oid, place)
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum = part.attnum
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND idx.indisunique AND idx.indisvalid AND idx.indimmediate
  AND idx.indpred IS NULL AND idx.indexprs IS NULL AND part.place <= idx.indnkeyatts
GROUP BY idx.indexrelid

-- name: missing_table_rights
-- Tables ('r') or views ('v') of the ledger, and which of the rights the current user lacks on each.
SELECT c.relname, ARRAY(SELECT needed FROM unnest(%(rights)s::text[]) AS needed
                        WHERE NOT has_table_privilege(c.oid, needed))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'tidemark' AND c.relkind = ANY(%(kinds)s::"char"[])
ORDER BY 1

-- name: server_facts
-- What exactly once rests on.
SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user,
       pg_is_in_recovery()
           OR (SELECT reset_val::boolean FROM pg_settings WHERE name = 'default_transaction_read_only'),
       current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       has_database_privilege(current_database(), 'CREATE'), current_database(), current_setting('server_encoding')

-- name: role_settings
-- Settings that the session's role or database has for its sessions; a role's own in the database is the last word.
SELECT split_part(given, '=', 1), substr(given, strpos(given, '=') + 1)
FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS given
WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND s.setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))
ORDER BY s.setrole <> 0, s.setdatabase <> 0

-- name: temp_file_limit
-- How much a session's statements may write to temporary files; -1: no bound.
SELECT current_setting('temp_file_limit')

-- name: database_identity
-- As whom and where a session is: the oid is alike on a primary and its standbys, the start is not.
SELECT current_user, current_database(), oid::bigint, pg_postmaster_start_time()::text
FROM pg_database WHERE datname = current_database()

-- name: is_member_of
-- Whether the current user has what a role may do, as pg_terminate_backend asks for it.
SELECT current_user, pg_has_role(%(role)s, 'USAGE')

-- name: view_readers
-- The roles that may read a view.
SELECT DISTINCT coalesce(rolname, 'everyone') FROM pg_catalog.pg_class AS class
CROSS JOIN LATERAL aclexplode(coalesce(relacl, acldefault('r', relowner))) AS granted
LEFT JOIN pg_catalog.pg_roles AS role ON role.oid = granted.grantee
WHERE class.oid = to_regclass(%(view)s) AND privilege_type = 'SELECT' ORDER BY 1
