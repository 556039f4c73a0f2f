"""What a proof can meet."""

from tidemark.errors import SchemaMismatch


class TransformIsAnother(SchemaMismatch):
    """The target lacks columns that the transform returns."""

    target: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.target} lacks the columns {', '.join(self.columns)} that the transform returns:"
            " another transform wrote the table; verify with the pipeline file that wrote it"
        )
