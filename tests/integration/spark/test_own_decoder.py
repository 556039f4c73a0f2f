"""B12: a decoder of the user's own through Spark's tasks, the commands and the proof."""

from pathlib import Path

import pytest
from tests.support.commands import PIPELINE, answer, settle_in, tidemark, write_pipeline
from tests.support.produce import produce
from tests.support.world import World

from tidemark.spark import executor as executors

pytestmark = pytest.mark.spark

OWN = "tests.support.own_decoders"


def test_records_pass_through_a_decoder_of_the_users_own(
    world: World, tmp_path: Path, kept_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: checked, shown, run and proven; a class that raises fails the run, and says where."""
    shipped = executors.spark_executor
    settle_in(world, tmp_path, monkeypatch)
    monkeypatch.setattr(executors, "spark_executor", shipped)
    produce(world.kafka, world.topic, [b"a b", b"bad", b"c d", None])
    write_pipeline(world, decode={"format": f"{OWN}:Words"})
    found = {one["check"]: one for one in answer("check", PIPELINE)["checks"]}
    assert found["decode"]["fact"] == f"{OWN}:Words: 2 columns"
    assert "4 records read: 2 rows, 2 dead letters" in tidemark("preview", PIPELINE).stdout
    write_pipeline(world, decode={"format": f"{OWN}:Raises"})
    told = tidemark("run", PIPELINE, exits=1)
    assert "JOB_FAILED" in told.stderr
    assert "no such word" in told.stderr
    assert "own_decoders.py" in told.stderr
    write_pipeline(world, decode={"format": f"{OWN}:Missing"})
    assert "has no attribute 'Missing'" in tidemark("check", PIPELINE, exits=1).stdout
    write_pipeline(world, decode={"format": f"{OWN}:Words"})
    answer("run", PIPELINE, "--accept-changes")
    rows = world.sql('SELECT "left", "right", kafka_offset FROM public.records ORDER BY 3')
    assert rows == [("a", "b", 0), ("c", "d", 2)]
    dead_letters = world.sql(
        'SELECT "offset", reason, detail FROM tidemark.dead_letters ORDER BY 1'
    )
    assert dead_letters == [(1, "WRONG_TYPE", "1 words"), (3, "WRONG_TYPE", "1 words")]
    assert answer("verify", PIPELINE)["clean"]
    world.sql("UPDATE public.records SET \"left\" = 'x' WHERE kafka_offset = 2")
    assert "altered" in tidemark("verify", PIPELINE, exits=1).stdout
