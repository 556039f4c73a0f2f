"""`tidemark audit`: the command's options, its answer as data, and its exit codes."""

from pathlib import Path

import pytest
from tests.support.commands import PIPELINE, answer, commit, refusal, tidemark
from tests.support.world import World

REFUSED = 2


def test_a_table_that_agrees_is_clean_and_its_dead_letters_are_told(region: World) -> None:
    """B28: also of Tidemark's own table, whose batches no record tells."""
    found = answer("audit", PIPELINE)
    assert (found["clean"], found["wrong"], found["rows"]) == (True, 0, 17)
    assert sum(found["dead_letters"].values()) == 2
    assert "nothing wrong" in tidemark("audit", PIPELINE).stdout


def test_what_differs_has_an_exit_code_and_is_named(region: World) -> None:
    """B28"""
    region.sql("DELETE FROM public.records WHERE (kafka_partition, kafka_offset) = (0, 1)")
    found = answer("audit", PIPELINE, exits=1)
    assert (found["clean"], found["lost"]) == (False, 1)
    [lost] = found["differences"]
    assert (lost["kind"], lost["where"]) == ("lost", f"{region.topic}[0]@1")
    told = tidemark("audit", PIPELINE, exits=1).stdout
    assert f"lost  row {region.topic}[0]@1: " in told


def test_the_group_of_another_tool_or_a_file_says_up_to_where(region: World) -> None:
    region.sql("DELETE FROM public.records WHERE (kafka_partition, kafka_offset) = (0, 1)")
    commit(region, region.partition(0), 1)
    commit(region, region.partition(1), 0)
    found = answer("audit", PIPELINE, "--group", region.region)
    assert (found["group"], found["wrong"]) == (region.region, 0)
    Path("offsets.csv").write_text(f"{region.topic},0,2\n{region.topic},1,0\n")
    assert answer("audit", PIPELINE, "--until", "offsets.csv", exits=1)["lost"] == 1
    assert answer("audit", PIPELINE, "--until", "2026-01-01", exits=0)["wrong"] == 0


@pytest.mark.parametrize(
    ("options", "case"),
    [
        (("--group", "g", "--until", "2026-01-01"), "OptionsClash"),
        (("--until", "offsets.csv"), "OptionUnreadable"),
        (("--since", "yesterday"), "OptionUnreadable"),
        (("--coordinates", "a,b"), "OptionUnreadable"),
        (("--ignore", "nowhere"), "AuditColumnUnknown"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    region: World, options: tuple[str, ...], case: str
) -> None:
    Path("offsets.csv").write_text("flights,0\n")
    assert refusal("audit", PIPELINE, *options, exits=REFUSED).case == case
