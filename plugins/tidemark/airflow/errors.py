"""What a DAG file can meet: names that its author gave."""

from tidemark.errors import InvalidSettings


class ParamsOfForm(InvalidSettings):
    """Params of a DAG's author have the names of params of the form."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"params: {', '.join(self.names)} of the form can't be replaced; give yours another"
            " name. Bounds for every run are in the pipeline file, under batch"
        )


class TaskKwargsRefused(InvalidSettings):
    """A DAG's author gives tasks what Tidemark sets itself, or what no task has."""

    argument: str
    names: tuple[str, ...]
    taken: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.argument}: {', '.join(self.names)} can't be set; it takes"
            f" {', '.join(self.taken)}"
        )


class AssetOfNoTarget(InvalidSettings):
    """An asset was asked for, and the region has no target of the name."""

    region: str
    targets: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(filter(None, self.targets)) or "one target without a name"
        return f"region {self.region} has the targets {names}: name one of them"
