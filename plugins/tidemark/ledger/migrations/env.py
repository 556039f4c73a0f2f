"""What Alembic runs around the revisions."""

from alembic import context

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", version_table_schema="tidemark")
else:
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, version_table_schema="tidemark")
with context.begin_transaction():
    context.run_migrations()
