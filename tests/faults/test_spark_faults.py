"""The same faults through a real spark-submit: its Python workers and its driver are killed."""

from pathlib import Path

import pytest
from tests.faults.region import FaultRegion
from tests.faults.submitted import submitted
from tests.support.processes import resume

pytestmark = [pytest.mark.spark, pytest.mark.long]

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
    said, words = submit.log.read_text(), (tmp_path / "spark.log").read_text()
    assert "Lost task" in words
    assert "Lost task" not in said
    assert "Traceback" not in said


def test_after_a_killed_driver_the_next_run_leaves_everything_exactly_once(
    region: FaultRegion, tmp_path: Path
) -> None:
    with submitted(region, region.open(), "read.middle=stop", tmp_path) as submit:
        submit.wait_until_stopped()
        submit.kill_driver()
        assert submit.end() == KILLED, submit.log.read_text()
    region.run()
    assert region.faults_found() == []


@pytest.mark.parametrize("partitions", [8])
def test_three_drivers_share_the_partitions_though_one_dies_and_one_sleeps(
    region: FaultRegion, tmp_path: Path
) -> None:
    """S1, S23, S33: and a worker of the third is killed; all of it in one run and one epoch."""
    run_id = region.open()
    once = tmp_path / "once"
    with (
        submitted(region, run_id, "publish.before=stop@2", tmp_path / "1", "sleeps") as sleeps,
        submitted(region, run_id, "publish.commit.after=stop", tmp_path / "2", "dies") as dies,
    ):
        asleep = sleeps.wait_until_stopped()
        dies.wait_until_stopped()
        dies.kill_driver()
        assert dies.end() == KILLED, dies.log.read_text()
        with submitted(region, run_id, f"stage.copy=kill:{once}", tmp_path / "3", "stays") as stays:
            assert stays.end() == 0, stays.log.read_text()
        resume(asleep)
        assert sleeps.end() == 0, sleeps.log.read_text()
    assert region.contributors() == {"sleeps", "dies", "stays"}
    assert once.exists()
    region.close(run_id)
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(1,)]
    assert region.faults_found() == []
