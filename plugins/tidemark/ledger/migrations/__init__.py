"""Alembic's side of the migrations: each revision executes one file of sql/migrations."""

from importlib.resources import files

from alembic import context, op


def execute(name: str) -> None:
    """Run sql/migrations/<name>.sql, or print it when Alembic writes a script."""
    statements = files("tidemark").joinpath("sql", "migrations", f"{name}.sql").read_text()
    if context.is_offline_mode():
        context.get_context().impl.static_output(statements)
    else:
        op.get_bind().execution_options(no_parameters=True).exec_driver_sql(statements)
