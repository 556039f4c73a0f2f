-- What the current user may do with the rows of a table.
SELECT has_table_privilege(%(table)s::regclass, 'SELECT'),
       has_table_privilege(%(table)s::regclass, 'INSERT'),
       has_table_privilege(%(table)s::regclass, 'DELETE'),
       has_table_privilege(%(table)s::regclass, 'UPDATE')
