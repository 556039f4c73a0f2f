"""Workers that are started beforehand are a convenience: a run does not depend on them."""

import subprocess
import sys
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


def test_what_a_worker_needs_for_its_first_block_is_imported() -> None:
    """B17: by its parent; else each worker would, while the first batch waits."""
    code = (
        "import sys\n"
        "import pyspark.worker\n"
        "from tidemark.spark.daemon import import_needed\n"
        "import_needed()\n"
        "import pyarrow as pa\n"
        "from tidemark.decode import JsonDecoder\n"
        "known = {*sys.modules}\n"
        "rows = JsonDecoder(pa.schema([('a', pa.int64())])).decode([b'{\"a\": 1}']).rows\n"
        "print(rows.num_rows, *({*sys.modules} - known))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows, *imported = told.stdout.split()
    assert rows == "1"
    assert not {name.partition(".")[0] for name in imported} & {"numpy", "pandas", "tidemark"}
