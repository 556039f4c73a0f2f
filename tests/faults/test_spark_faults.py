"""The same faults through a real spark-submit: its Python workers and its driver are killed."""

from pathlib import Path

import pytest
from tests.faults.region import FaultRegion
from tests.faults.submitted import submitted

pytestmark = pytest.mark.spark

KILLED = 137
"""What spark-submit makes of a driver that SIGKILL ended."""


def test_killed_workers_of_reader_and_writer_are_tried_again(
    region: FaultRegion, tmp_path: Path
) -> None:
    reader, writer = tmp_path / "reader", tmp_path / "writer"
    failpoints = f"read.middle=kill:{reader};stage.copy=kill:{writer}"
    run_id = region.open()
    with submitted(region, run_id, failpoints, tmp_path) as submit:
        assert submit.end() == 0, submit.log.read_text()
    region.close(run_id)
    assert reader.exists()
    assert writer.exists()
    assert region.faults_found() == []


def test_after_a_killed_driver_the_next_run_leaves_everything_exactly_once(
    region: FaultRegion, tmp_path: Path
) -> None:
    with submitted(region, region.open(), "read.middle=stop", tmp_path) as submit:
        submit.wait_until_a_worker_stopped()
        submit.kill_driver()
        assert submit.end() == KILLED, submit.log.read_text()
    region.run()
    assert region.faults_found() == []
