"""The statements: one file each in sql/queries, named as the method that runs it, or after it."""

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """The text of sql/queries/<name>.sql; parameters are named, `%(region)s`."""
    return files("tidemark").joinpath("sql", "queries", f"{name}.sql").read_text()
