"""Errors of a proof."""

from tidemark.errors import SchemaMismatch


class TransformIsAnother(
    SchemaMismatch,
    text="{target} lacks the columns {columns:list} that the transform returns: another transform"
    " wrote the table; verify with the pipeline file that wrote it",
):
    target: str
    columns: tuple[str, ...]
