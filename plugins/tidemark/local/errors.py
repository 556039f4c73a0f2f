"""What the local stack can meet."""

from tidemark.errors import NotStarted


class PortTaken(NotStarted):
    """Another process has the port of a server whose clients run and know no other."""

    name: str
    port: int

    def __str__(self) -> str:
        return (
            f"{self.name}: port {self.port} is taken by another process, and what runs already"
            f" knows no other. End that process (`lsof -i :{self.port}` names it), or stop the"
            " whole stack with `tidemark local down`: the next `up` then chooses another port"
        )
