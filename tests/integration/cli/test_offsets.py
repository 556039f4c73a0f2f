"""`tidemark offsets` and `import-offsets`: a region is made anew where another one stood."""

import json
from pathlib import Path

import pytest
from tests.support.commands import answer, commit, refusal, tidemark, write_pipeline
from tests.support.world import World

from tidemark.kafka.config import kafka_config
from tidemark.kafka.group import Group
from tidemark.model.offsets import Offsets, Span


def committed(world: World, group: str) -> Offsets:
    config = kafka_config(world.connections["tidemark_kafka"])
    return Group(config, group).committed(world.ledger_offsets())


def commit_as(other: World, region: World, group: str) -> None:
    """Somebody else has commits in the group."""
    other.region = group
    commit(other, region.partition(), 1)


@pytest.mark.long
def test_offsets_are_exported_for_other_tools(region: World) -> None:
    """B13: as of the head and of a checkpoint, with what tells whose they are."""
    found = answer("offsets", region.region)
    assert {(one["topic"], one["partition"]): one["offset"] for one in found["offsets"]} == dict(
        region.ledger_offsets()
    )
    facts = (found["group"], found["seq"], found["epoch"])
    assert facts == (region.region, 3, 1)
    [topic_id] = {one["topic_id"] for one in found["offsets"]}
    assert region.sql("SELECT DISTINCT topic_id FROM tidemark.partitions") == [(topic_id,)]
    for seq in (0, 1, 2):
        told = tidemark("offsets", region.region, "--at", str(seq), "--csv").stdout
        rewound = answer("reset", region.region, "--to", str(seq))["offsets"]
        lines = dict(line.rsplit(",", 1) for line in told.splitlines())
        assert {f"{place.replace(',', '[')}]": int(to) for place, to in lines.items()} == rewound
    assert refusal("offsets", region.region, "--at", "9", exits=16).case == "NoOffsetsAt"
    tidemark("offsets", region.region, "--csv", "-o", "json", exits=2)
    assert json.loads(tidemark("offsets", region.region, "-o", "json").stdout) == found


def test_offsets_are_not_exported_where_no_rewind_goes(region: World) -> None:
    """B13, G90: behind a range that was left out they would pass what was read before it."""
    region.produce(3, start=300)
    place, opened = region.partition(), region.open("passes")
    at = region.ledger_offsets()[place]
    with region.ledger().deciding(region.region, opened.epoch, "plan") as tx:
        tx.pass_over(Span(*place, at, at + 1))  # as a run with accept_corrupt
    region.drain("passes")
    region.close("passes")
    for seq in ("0", "1"):
        told = json.loads(
            tidemark("offsets", region.region, "--at", seq, "-o", "json", exits=16).stdout
        )
        assert told["error"]["case"] == "OffsetsNotReadable"
        tidemark("reset", region.region, "--to", seq, exits=16)
    behind = answer("offsets", region.region, "--at", "3")["offsets"]
    assert {one["offset"] for one in behind if one["partition"] == 0} == {at + 1}
    [first] = [one for one in answer("checkpoints", region.region) if one["seq"] == 1]
    assert first["offsets"][str(place)] <= at, "it does not pass what was read after it"


def exported(region: World, folder: Path, **other: object) -> str:
    """A file of the region's checkpoint 1, with these facts in place of its own."""
    file = folder / "exported.json"
    file.write_text(json.dumps(answer("offsets", region.region, "--at", "1") | other))
    return str(file)


def begin_again(region: World, start: str = "committed") -> str:
    """The file of a region of another name, group and table that never opened."""
    name = f"{region.region}_again"
    write_pipeline(region, region=name, kafka={"start": start}, target={"table": "public.again"})
    return name


def test_a_new_region_begins_at_exported_offsets(region: World, tmp_path: Path) -> None:
    """B2: a dry run writes nothing; the first open goes on from there."""
    file, before = exported(region, tmp_path), answer("offsets", region.region, "--at", "1")
    name = begin_again(region)
    told = tidemark("import-offsets", name, file).output
    assert "would have (dry run)" in told
    assert committed(region, name) == {}
    found = answer("import-offsets", name, file, "--apply")
    assert (found["applied"], found["source"]) == (True, f"{region.region}, checkpoint 1")
    tidemark("import-offsets", name, file, "--apply")
    tidemark("run", "dags/pipeline.yaml")
    initial = answer("offsets", name, "--at", "0")["offsets"]
    assert [one["offset"] for one in initial] == [one["offset"] for one in before["offsets"]]
    assert answer("verify", name)["clean"]
    assert refusal("import-offsets", name, file, exits=16).case == "ImportTooLate"


@pytest.mark.long
@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"cluster_id": "elsewhere"}, "the file is from cluster elsewhere, this is cluster"),
        ({"offset": 10**12}, "holds offsets 0 to"),
        *(
            (other, says)
            for other, says in (
                ({"topic_id": "AAAA"}, "is not the exported one (its id was AAAA)"),
                ({"partition": 9}, "[9] has an offset, but"),
                ({"topic": "nowhere"}, "nowhere[0] has an offset, but"),
            )
        ),
    ],
)
def test_offsets_of_other_records_are_refused(
    region: World, tmp_path: Path, other: dict[str, object], says: str
) -> None:
    """B2: and nothing is written."""
    [first, *rest] = answer("offsets", region.region)["offsets"]
    facts = {key: other[key] for key in other if key == "cluster_id"}
    changed = first | {key: other[key] for key in other if key in first}
    file = exported(region, tmp_path, offsets=[changed, *rest], **facts)
    name = begin_again(region)
    refused = refusal("import-offsets", name, file, "--apply", exits=16)
    assert refused.case == "ImportUnfit"
    assert [says in one for one in refused.fields["faults"]].count(True) == 1
    assert committed(region, name) == {}


@pytest.mark.long
def test_offsets_go_into_no_group_that_has_others(region: World, tmp_path: Path) -> None:
    """B2"""
    file = exported(region, tmp_path)
    name = begin_again(region, start="beginning")
    assert refusal("import-offsets", name, file, exits=16).case == "ImportPassedOver"
    begin_again(region)
    commit_as(region, region, name)
    assert refusal("import-offsets", name, file, exits=16).case == "ImportOverCommits"


@pytest.mark.long
def test_offsets_go_into_no_group_of_another_region(region: World, tmp_path: Path) -> None:
    """B2, B9: the same offsets without its metadata would forget what that one has sent."""
    file = exported(region, tmp_path)
    Path(file).write_text(json.dumps(answer("offsets", region.region)))
    name = begin_again(region)
    kafka = {"start": "committed", "group": region.region}
    write_pipeline(region, region=name, kafka=kafka, target={"table": "public.again"})
    places = region.ledger_offsets()
    group = Group(kafka_config(region.connections["tidemark_kafka"]), region.region)
    before = group.committed_metadata(places)
    for flags in ((), ("--apply",)):
        [owner] = refusal("import-offsets", name, file, *flags, exits=16).fields["owners"]
        assert owner == f"region {region.region} has consumer group '{region.region}'"
    assert group.committed_metadata(places) == before


@pytest.mark.long
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"offsets": []}'])
def test_a_file_that_is_no_export_is_named(region: World, tmp_path: Path, text: str) -> None:
    """B16"""
    file = tmp_path / "odd.json"
    file.write_text(text)
    name = begin_again(region)
    told = refusal("import-offsets", name, str(file), exits=2)
    assert (told.case, told.fields["file"]) == ("NotExportedOffsets", str(file))
    missing = str(tmp_path / "none.json")
    assert refusal("import-offsets", name, missing, exits=2).case == "FileUnreadable"
