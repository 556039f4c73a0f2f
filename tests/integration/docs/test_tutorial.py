"""The tutorial, typed as it stands there by somebody new, in an empty folder of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from scripts.demo.airflow_api import AirflowApi
from tests.support.documents import ROOT, Block, blocks

from tidemark_local.stack import LocalStack

PAGE = blocks(ROOT / "docs" / "first-pipeline.md")
INSTALL = "scripts/bootstrap ", ". .venv/bin/activate\n"
"""Lines of the first block that were done before: this suite runs in what they make."""


class Newcomer:
    """Somebody who types what the page says."""

    def __init__(self, clone: Path) -> None:
        self.folder = clone.parent / "shop"
        self._clone = clone
        self._left = list(PAGE)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("AIRFLOW", "TIDEMARK", "PYTHONPATH"))}  # fmt: skip
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = kept | {"PATH": path, "AIRFLOW_HOME": str(clone / "airflow")}
        # Of this suite's own plugins the tutorial knows nothing: their import takes seconds.
        self._environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    def next(self, language: str) -> Block:
        """The page's next block, which is of this language: none is passed over."""
        block = self._left.pop(0)
        assert block.language == language, block
        return block

    def types(self, part: str) -> str:
        """What the next block prints, which has this part."""
        block = self.next("sh")
        assert part in block.text, block
        return self.run(block.text)

    def run(self, text: str, exits: int = 0) -> str:
        """What these commands print; they end with this code."""
        where = self.folder if self.folder.exists() else self._clone
        done = subprocess.run(
            ["bash", "-ec", text],
            cwd=where, env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == exits, done.stdout + done.stderr
        return done.stdout

    @property
    def is_done(self) -> bool:
        """Whether nothing of the page is left."""
        return not self._left


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    clone = tmp_path / "clone"
    clone.mkdir()
    one = Newcomer(clone)
    yield one
    if one.folder.exists():
        one.run("tidemark local down")


TESTS = "python -m pytest -q -p no:cacheprovider tests/test_clicks.py"


@pytest.mark.airflow
@pytest.mark.long
def test_every_step_of_the_tutorial_does_what_it_says(newcomer: Newcomer) -> None:
    """B11: from an empty folder to the DAGs in Airflow."""
    _type_all(newcomer, _find_in_airflow)


@pytest.mark.airflow
@pytest.mark.long
def test_the_dag_of_the_tutorial_makes_rows_of_new_records(newcomer: Newcomer) -> None:
    """B11: the driver that Airflow starts has to find the newcomer's own transform."""
    _type_all(newcomer, _run_in_airflow)


def _type_all(newcomer: Newcomer, in_airflow: Callable[[Newcomer], object]) -> None:
    first = newcomer.next("sh").text
    newcomer.run("".join(one for one in first.splitlines(True) if not one.startswith(INSTALL)))
    told = newcomer.types("local produce clicks - --key page")
    assert "1,000 records sent to topic clicks" in told
    told = newcomer.types("tidemark init clicks")
    assert _lines(told.partition("Written:")[0]) == _lines(newcomer.next("text").text)
    written = yaml.safe_load((newcomer.folder / "dags" / "clicks.yaml").read_text())
    assert written == yaml.safe_load(newcomer.next("yaml").text)
    assert "3 passed" in newcomer.types("pytest")
    _change(newcomer)
    told = newcomer.types("tidemark run")
    assert "region clicks: all is well" in told
    assert "20 records read: 20 rows" in told
    assert "1 batch, 900 rows, 1 dead letter in" in told
    assert "nothing wrong" in told
    assert "INVALID_JSON" in told
    assert _lines(newcomer.types("tidemark local sql")) == _lines(newcomer.next("text").text)
    assert "0 batches" in newcomer.run("tidemark run dags/clicks.yaml")
    newcomer.types("tidemark local up")
    in_airflow(newcomer)
    newcomer.types("tidemark local down")
    assert newcomer.is_done


def _change(newcomer: Newcomer) -> None:
    """The transform: two tests fail until the statement and the record are as they should be."""
    folder = newcomer.folder
    (folder / "jobs" / "clicks.py").write_text(newcomer.next("python").text)
    told = newcomer.run(TESTS, exits=1)
    assert "2 failed, 1 passed" in told
    assert '"day": the table lacks it' in told
    (folder / "sql" / "clicks.sql").write_text(newcomer.next("sql").text)
    tests = folder / "tests" / "test_clicks.py"
    kept = tests.read_text().partition("def test_a_record_becomes_a_row")[0]
    tests.write_text(kept + newcomer.next("python").text)
    assert "3 passed" in newcomer.run(TESTS)


def _find_in_airflow(newcomer: Newcomer) -> AirflowApi:
    airflow = LocalStack(newcomer.folder / ".tidemark", newcomer.folder).airflow
    api = AirflowApi(airflow.url, airflow.login)
    for dag in ("clicks", "clicks_reset", "clicks_replay"):
        api.wait_for_dag(dag, seconds=600)
    return api


NEW_RECORDS = """
for n in $(seq 5); do
    echo '{"user": "bob", "page": "/", "at": "2024-05-02T12:00:00Z", "ms": 500}'
done | tidemark local produce clicks -
"""


def _run_in_airflow(newcomer: Newcomer) -> None:
    api = _find_in_airflow(newcomer)
    newcomer.run(NEW_RECORDS)
    api.trigger("clicks", "new_records")
    assert api.wait("clicks", "new_records") == "success", api.tasks("clicks", "new_records")
    (target,) = json.loads(newcomer.run("tidemark status clicks -o json"))["targets"]
    assert target["ledger"] == 905


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]
