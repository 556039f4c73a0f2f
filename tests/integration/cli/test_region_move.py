"""`tidemark region move` and `tidemark offsets`: a region goes elsewhere, or its offsets do."""

import json
from pathlib import Path

import pytest
from tests.integration.cli.conftest import GROWS
from tests.support.commands import (
    Ended,
    answer,
    commit,
    refusal,
    tidemark,
    write_pipeline,
)
from tests.support.world import World, dump

from tidemark.errors import Fenced
from tidemark.kafka.config import kafka_config
from tidemark.kafka.group import Group
from tidemark.model.offsets import Offsets, Span


def committed(world: World, group: str) -> Offsets:
    config = kafka_config(world.connections["tidemark_kafka"])
    return Group(config, group).committed(world.ledger_offsets())


def move(world: World, *flags: str) -> str:
    return tidemark("region", "move", world.region, *flags).output


def not_moved(world: World, *flags: str) -> Ended:
    return refusal("region", "move", world.region, *flags, exits=16)


@GROWS
def test_a_region_goes_on_in_another_group(region: World) -> None:
    """B2: its offsets come with it, and no zombie of the old group can write."""
    new = f"prefixed.{region.region}"
    write_pipeline(region, kafka={"group": new})
    assert refusal("run", "dags/pipeline.yaml", exits=16).case == "RegionKeepsGroup"
    before, offsets = dump(region.warehouse), region.ledger_offsets()
    assert move(region).endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    assert committed(region, new) == {}
    found = answer("region", "move", region.region, "--apply", "--why", "prefixes")
    assert (found["group_before"], found["group"], found["epoch"]) == (region.region, new, 2)
    assert committed(region, new) == offsets
    [done] = answer("region", "actions")
    assert (done["kind"], done["why"], done["details"]["to"]) == ("move", "prefixes", new)
    ledger = region.ledger()
    with pytest.raises(Fenced), ledger.deciding(region.region, 1, "publish"):
        raise AssertionError
    region.produce(3, start=300)
    tidemark("run", "dags/pipeline.yaml")
    assert committed(region, new) == region.ledger_offsets()
    assert answer("verify", region.region)["clean"]
    assert answer("reset", region.region, "--to", "1", "--apply")["removed"]["batches"] == 3


@GROWS
def test_a_region_follows_its_table_to_another_name(region: World) -> None:
    """B4: the same table by its oid; another one under that name is refused."""
    write_pipeline(region, target={"table": "kept.flights"})
    assert refusal("run", "dags/pipeline.yaml", exits=16).case == "TargetsChanged"
    region.sql("CREATE SCHEMA kept")
    region.sql("CREATE TABLE kept.flights (LIKE public.records)")
    before = dump(region.warehouse)
    for flags in ((), ("--apply",)):
        assert not_moved(region, *flags).case == "TableMovesWithItsRows"
    assert dump(region.warehouse) == before
    region.sql("DROP TABLE kept.flights")
    asked = not_moved(region).fields
    assert (asked["asked"], asked["asked_oid"]) == ("kept.flights", None)
    region.sql("ALTER TABLE public.records SET SCHEMA kept")
    region.sql("ALTER TABLE kept.records RENAME TO flights")
    move(region, "--apply")
    region.produce(3, start=300)
    tidemark("run", "dags/pipeline.yaml")
    assert answer("verify", region.region)["clean"]
    assert answer("status", region.region, "--count")["targets"][0]["drift"] == 0
    assert answer("reset", region.region, "--to", "initial", "--apply")["removed"]["rows"] == 20


def test_nothing_to_move_is_said(region: World) -> None:
    assert not_moved(region).case == "NothingToMove"


@pytest.mark.parametrize("flags", [(), ("--apply",)])
def test_what_is_anothers_is_left_alone(region: World, flags: tuple[str, ...]) -> None:
    """B4: a group with commits or of another region, a table of another region, a run at work."""
    new = f"prefixed.{region.region}"
    write_pipeline(region, kafka={"group": new})
    other = World(region.kafka, region.warehouse, region.topic, new.replace(".", "_")[:40])
    write_pipeline(region, kafka={"group": new}, output={"topic": "elsewhere"})
    assert not_moved(region, *flags).case == "MoveFromSent"
    write_pipeline(region, kafka={"group": new})
    commit_as(other, region, new)
    assert not_moved(region, *flags).case == "MoveIntoCommits"
    write_pipeline(region, kafka={"group": f"{new}.b"})
    region.sql("INSERT INTO tidemark.regions (region, group_id, cluster_id) VALUES ('other', %s,"
               " 'c')", (f"{new}.b",))  # fmt: skip
    [of_group] = not_moved(region, *flags).fields["owners"]
    assert of_group == f"region other has consumer group '{new}.b'"
    write_pipeline(region, kafka={"group": f"{new}.c"}, target={"table": "public.others"})
    region.sql("INSERT INTO tidemark.targets VALUES ('other', '', 'public.others')")
    [of_table] = not_moved(region, *flags).fields["owners"]
    assert of_table == "region other has target public.others"
    write_pipeline(region, kafka={"group": f"{new}.d"}, target={"table": "public.records"})
    region.open("another")
    assert not_moved(region, *flags).case == "RegionNotAtRest"
    assert region.sql("SELECT group_id FROM tidemark.regions WHERE region = %s",
                      (region.region,)) == [(region.region,)]  # fmt: skip


def commit_as(other: World, region: World, group: str) -> None:
    """Somebody else has commits in the group."""
    other.region = group
    commit(other, region.partition(), 1)


def test_a_ledger_from_before_a_move_is_moved_again_above_its_epochs(region: World) -> None:
    """B2: restored; the mirror in the new group is its own."""
    write_pipeline(region, kafka={"group": f"prefixed.{region.region}"})
    move(region, "--apply")
    region.sql("UPDATE tidemark.regions SET group_id = region, epoch = 1")
    move(region, "--apply")
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(3,)]


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


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"cluster_id": "elsewhere"}, "the file is from cluster elsewhere, this is cluster"),
        ({"offset": 10**12}, "holds offsets 0 to"),
        *(
            pytest.param(other, says, marks=pytest.mark.long)
            for other, says in (
                ({"topic_id": "AAAA"}, "is not the exported one (its id was AAAA)"),
                ({"partition": 9}, "[9] is in the file, but"),
                ({"topic": "nowhere"}, "nowhere[0] is in the file, but"),
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


def test_offsets_go_into_no_group_that_has_others(region: World, tmp_path: Path) -> None:
    """B2"""
    file = exported(region, tmp_path)
    name = begin_again(region, start="beginning")
    assert refusal("import-offsets", name, file, exits=16).case == "ImportPassedOver"
    begin_again(region)
    commit_as(region, region, name)
    assert refusal("import-offsets", name, file, exits=16).case == "ImportOverCommits"


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
