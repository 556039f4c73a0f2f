"""A quick session: the tests that need no server, and no server that could start."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from tidemark_local._airflow import Airflow
from tidemark_local._broker import LocalBroker
from tidemark_local._spark import Spark
from tidemark_local.postgres import Postgres

SERVERS = (LocalBroker, Postgres, Spark, Airflow)


def needs_server(item: pytest.Item) -> bool:
    """Whether the test asks for the stack, on whatever way, or for Spark or Airflow."""
    marked = any(item.get_closest_marker(name) for name in ("spark", "airflow"))
    return marked or "stack" in getattr(item, "fixturenames", ())


@contextmanager
def no_servers() -> Iterator[None]:
    """Inside, a server that is to start fails whoever starts it."""

    def refuse(server: object, *_: object) -> None:
        pytest.fail(f"a quick test starts {type(server).__name__}: ask for the fixture `stack`")

    with pytest.MonkeyPatch.context() as patch:
        for server in SERVERS:
            patch.setattr(server, "start", refuse)
        yield


class QuickSession:
    """What `--quick` makes of a session."""

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        config.hook.pytest_deselected(items=[item for item in items if needs_server(item)])
        items[:] = [item for item in items if not needs_server(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        with no_servers():
            return (yield)
