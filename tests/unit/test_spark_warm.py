"""Workers that are started beforehand are a convenience: a run does not depend on them."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.spark import executor as warm_module
from tidemark.spark.executor import warm


def test_workers_that_do_not_start_stop_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ends = Event(), Event()

    def fail(*_: Any) -> None:
        raise RuntimeError("no Python there")

    def hang(*_: Any) -> None:
        asked.set()
        ends.wait()

    warm(SimpleNamespace(defaultParallelism=2, parallelize=fail), for_rows=False)
    monkeypatch.setattr(warm_module, "WARM_SECONDS", 0.05)
    warm(SimpleNamespace(defaultParallelism=2, parallelize=hang), for_rows=False)
    assert asked.wait(120)
    ends.set()
