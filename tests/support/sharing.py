"""How workers of pytest-xdist share the tests: by file, long files first, some test by test.

With `--shuffle SEED` files and the tests of a file come in a random order, and some files are
shared test by test: what a test leaves, or needs to be left, shows.
"""

import gc
import os
import random
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK = (
    "integration/spark/test_executor.py",
    "integration/spark/test_transform_shapes.py",
    "integration/spark/test_arrow_transform.py",
    "integration/spark/test_avro.py",
    "integration/spark/test_frames_of_targets.py",
    "integration/spark/test_targets.py",
    "integration/spark/test_examples.py",
    "integration/spark/test_own_decoder.py",
    "integration/spark/test_documented_upsert.py",
    "integration/spark/test_changed_keys.py",
)
"""Files whose tests need a JVM in the worker's own process: one worker starts one for all."""

FAULTS = (
    "faults/test_faults.py",
    "faults/test_seeded_bugs.py",
    "faults/test_member_faults.py",
)
"""Files whose tests stop a Postgres of their worker's own: `make test` starts one."""

AIRFLOW = (
    "integration/airflow/test_e2e.py",
    "browser/test_pages.py",
    "integration/airflow/test_load.py",
    "integration/airflow/test_by_hour.py",
    "browser/test_examples.py",
)
"""Files that share one Airflow."""

DAGS = tuple(
    f"dags/test_{of}.py"
    for of in (
        "wiring",
        "lineage",
        "dags",
        "asking",
        "on_data",
        "operator",
        "page",
        "planted",
        "replays",
        "results",
        "documented",
        "import_errors",
    )
)
"""Files that import Airflow, for four CPU seconds, into the worker's own process."""

TOGETHER = {file: files[0] for files in (SPARK, FAULTS, AIRFLOW, DAGS) for file in files}

FIRST = (
    *AIRFLOW,
    *SPARK,
    *FAULTS,
    "faults/test_spark_faults.py",
    "model/test_ledger.py",
    *DAGS,
    "dags/test_logins.py",
    "integration/spark/test_cluster.py",
    "integration/protocol/test_output.py",
    "integration/protocol/test_sent_letters.py",
    "integration/cli/test_replay.py",
    "integration/cli/test_commands.py",
    "integration/local/test_stack.py",
    "integration/docs/test_acl.py",
    "faults/test_outages.py",
    "integration/kafka/test_three_brokers.py",
    "integration/runs/test_shared_runs.py",
    "integration/pipelines/test_run.py",
    "integration/verify/test_verify_groups.py",
    "integration/kafka/test_corrupt.py",
    "integration/verify/test_verify.py",
    "integration/cli/test_init.py",
    "model/test_output.py",
    "unit/test_docs.py",
)
"""Files that take long: workers begin with them, so that none has one left at the end."""

SPREAD = (
    "faults/test_spark_faults.py",
    "model/test_output.py",
    "model/test_in_flight.py",
)
"""Files whose tests share nothing: any worker may run any of them."""

SPREAD_IN_REST = (
    "faults/test_faults.py",
    "faults/test_seeded_bugs.py",
)
"""Of the second tier, where they are most of it."""

TESTS = Path(__file__).resolve().parents[1]


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file go to one worker; those of a SPREAD file each to the next free one.

    Files that stand TOGETHER go to one worker: they share what is costly to start.

    In place of `--dist loadgroup`, whose groups pytest 9.2 does not see (pytest-xdist 3.8).
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].removeprefix("tests/")
        if self._is_spread(file):
            return nodeid
        if file in TOGETHER:
            return TOGETHER[file]
        return nodeid if self._is_scattered(file) else file

    def _is_spread(self, file: str) -> bool:
        in_rest = self.config.getoption("--tier") != "test"
        return file in SPREAD or (in_rest and file in SPREAD_IN_REST)

    def _is_scattered(self, file: str) -> bool:
        seed = self.config.getoption("--shuffle")
        return seed is not None and random.Random(f"{seed} {file}").random() < SCATTERED


SCATTERED = 0.2
"""The share of files that `--shuffle` gives away test by test."""


def group_of(path: Path) -> str:
    """The file itself, or the first one of those that it stands together with."""
    file = path.relative_to(TESTS).as_posix()
    return TOGETHER.get(file, file)


def worker() -> str:
    """The name of this worker; empty in a session without workers."""
    return os.environ.get("PYTEST_XDIST_WORKER", "")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Each worker collects the whole suite; what is made meanwhile is no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_finish() -> None:
    """Files import Airflow in their tests: each worker collects every file."""
    if "airflow" in sys.modules and worker():
        raise pytest.UsageError("a file of tests imports Airflow: import it in its tests")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    config.option.loadscopereorder = False  # as collected: by number of tests says nothing
    return Sharing(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--shuffle"):
        _shuffle(items, random.Random(seed))
    elif worker():
        items.sort(key=_place)


def _shuffle(items: list[pytest.Item], chance: random.Random) -> None:
    """Files in a random order, and the tests of each; alike in each worker."""
    places: dict[Path, float] = {}
    for item in items:
        places.setdefault(item.path, chance.random())
    order = {item.nodeid: (places[item.path], chance.random()) for item in items}
    items.sort(key=lambda item: order[item.nodeid])


def _place(item: pytest.Item) -> int:
    file = item.path.relative_to(TESTS).as_posix()
    return FIRST.index(file) if file in FIRST else len(FIRST)
