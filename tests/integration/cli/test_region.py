"""`tidemark region`: what renaming and dropping leave, and that no zombie comes back."""

from contextlib import closing
from pathlib import Path
from typing import cast

import psycopg2
import pytest
import yaml
from tests.integration.cli.conftest import GROWS
from tests.support.commands import (
    PIPELINE,
    answer,
    refusal,
    tidemark,
    write_pipeline,
)
from tests.support.world import World, dump, staging

from tidemark.errors import Fenced, Refused, Superseded
from tidemark.ledger import naming
from tidemark.ledger.actions import Order
from tidemark.postgres.session import Cursor
from tidemark.staging.errors import TargetHasLeftovers
from tidemark.staging.target import Target, refuse_leftovers

LEDGER = ("partitions", "batches", "spans", "contributions", "members", "runs", "run_targets",
          "dead_letters", "resets", "undo", "undo_columns",
          "deleted_keys", "regions")  # fmt: skip
ORDER = Order("test", "a test")


def rows_of(world: World, region: str) -> dict[str, int]:
    """How many rows each table of the ledger has of a region."""
    return {
        table: world.sql(f"SELECT count(*) FROM tidemark.{table} WHERE region = %s", (region,))[0][
            0
        ]
        for table in LEDGER
    }


def renamed(world: World, new: str) -> None:
    """The pipeline file bears the new name and the old group."""
    write_pipeline(world, region=new, kafka={"group": world.pipeline.group})


def test_regions_are_listed_also_those_without_a_file(region: World) -> None:
    [found] = answer("region", "list")
    assert (found["region"], found["state"], found["head_seq"]) == (region.region, "closed", 3)
    assert (found["target"], found["dead_letters"], found["has_file"]) == (
        "public.records", 2, True
    )  # fmt: skip
    renamed(region, "other")
    assert [one["has_file"] for one in answer("region", "list")] == [False]
    assert region.region in tidemark("region", "list").stdout


@pytest.mark.parametrize("verb", [("drop",), ("rename", "departures")])
def test_a_dry_run_writes_nothing(region: World, verb: tuple[str, ...]) -> None:
    before, offsets = dump(region.warehouse), region.kafka_offsets()
    name, *rest = verb
    told = tidemark("region", name, region.region, *rest).stdout
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    assert region.kafka_offsets() == offsets


@GROWS
def test_a_renamed_region_goes_on_under_its_new_name(region: World) -> None:
    """B2: checkpoints, dead letters, target and group stay; verify proves them."""
    before = rows_of(region, region.region)
    found = answer("region", "rename", region.region, "departures", "--apply", "--why", "split")
    assert (found["epoch"], found["group"]) == (2, region.pipeline.group)
    assert rows_of(region, "departures") == before
    assert not any(rows_of(region, region.region).values())
    audit = "SELECT region, kind, why, details->>'to' FROM tidemark.actions"
    assert region.sql(audit) == [(region.region, "rename", "split", "departures")]
    owner = f"region departures has consumer group '{region.pipeline.group}' and target public"
    told = refusal("run", "dags/pipeline.yaml", exits=16)  # the old name
    assert told == ("RegionHasOwners", {"region": region.region, "owners": [f"{owner}.records"]})
    assert owner in tidemark("check", "dags/pipeline.yaml", "--no-spark", exits=1).stdout
    assert owner in answer("status", region.region)["remarks"][0]
    renamed(region, "departures")
    assert answer("verify", "departures")["clean"]
    region.produce(3, start=300)
    tidemark("run", "dags/pipeline.yaml")
    assert answer("status", "departures")["head_seq"] == 4
    assert answer("reset", "departures", "--to", "1", "--apply")["removed"]["batches"] == 3
    tidemark("run", "dags/pipeline.yaml")
    assert len(region.rows()) == 20
    assert answer("verify", "departures")["clean"]


def test_who_gave_an_override_is_told(region: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """G124: as the machine names the person, and by which role Postgres let them in."""
    monkeypatch.setenv("LOGNAME", "alice")
    tidemark("run", "dags/pipeline.yaml")
    assert answer("region", "actions") == []
    tidemark("run", "dags/pipeline.yaml", "--accept-changes")
    [done] = answer("region", "actions", region.region)
    assert (done["kind"], done["requested_by"].split("@")[0]) == ("override", "alice")
    assert done["database_user"] == region.warehouse["user"]
    ((epoch,),) = region.sql("SELECT max(epoch) FROM tidemark.runs")
    assert done["details"] == {"epoch": epoch, "overrides": ["accept_changes"]}


def test_a_dropped_region_leaves_its_target_and_kafkas_offsets(region: World) -> None:
    rows, offsets = region.rows(), region.kafka_offsets()
    found = answer("region", "drop", region.region, "--apply", "--why", "moved")
    assert found["size"] == {"partitions": 2, "batches": 3, "dead_letters": 2}
    assert not any(rows_of(region, region.region).values())
    assert staging(region) == []
    assert region.rows() == rows
    assert region.group.committed(offsets) == offsets
    audit = "SELECT region, kind, why, details->'batches' FROM tidemark.actions"
    assert region.sql(audit) == [(region.region, "drop", "moved", 3)]


@GROWS
def test_a_region_of_the_same_name_goes_on_from_kafka_and_above_the_old_epochs(
    region: World,
) -> None:
    """B2: a zombie of the dropped region holds an epoch that the new one never has."""
    rows = region.rows()
    answer("region", "drop", region.region, "--apply")
    write_pipeline(region, kafka={"start": "committed"})
    region.produce(3, start=300)
    assert refusal("run", "dags/pipeline.yaml", exits=16).case == "TargetHasLeftovers"
    region.sql("ALTER TABLE public.records ALTER COLUMN batch_seq SET DEFAULT 0")
    region.sql("UPDATE public.records SET batch_seq = 0 WHERE batch_seq > 0")
    tidemark("run", "dags/pipeline.yaml")
    assert answer("verify", region.region)["wrong"] == 0
    assert region.sql("SELECT epoch, head_seq FROM tidemark.regions") == [(2, 4)]
    assert len(region.rows()) == len(rows) + 3
    ledger = region.ledger()
    for epoch in (0, 1):
        with pytest.raises(Fenced), ledger.deciding(region.region, epoch, "plan"):
            raise AssertionError


def test_a_table_without_batches_is_no_leftover(region: World) -> None:
    """Rows that were there before, a table that is not there, one that may not be read."""
    region.sql("CREATE TABLE public.own (value text)")
    region.sql("CREATE TABLE public.mine (value text, kafka_topic text, kafka_partition int,"
               " kafka_offset bigint, batch_seq bigint DEFAULT 0)")  # fmt: skip
    region.sql("INSERT INTO public.mine (value) VALUES ('before')")
    with region.ledger().engine.connect() as connection:
        cursor = cast(Cursor, connection.connection.cursor())
        for table in ("public.own", "public.mine", "public.absent"):
            refuse_leftovers(cursor, Target.parse(table))
        cursor.execute("UPDATE public.mine SET batch_seq = 1")
        with pytest.raises(TargetHasLeftovers):
            refuse_leftovers(cursor, Target.parse("public.mine"))
        cursor.execute("REVOKE SELECT ON public.mine FROM CURRENT_USER")
        refuse_leftovers(cursor, Target.parse("public.mine"))


def test_a_region_of_another_name_does_not_take_the_rows_for_its_own(region: World) -> None:
    """B4: its seqs would begin at 1 again, and its rewinds remove the old region's rows."""
    answer("region", "drop", region.region, "--apply")
    write_pipeline(
        region, region="another", kafka={"start": "committed", "group": region.pipeline.group}
    )
    before = region.rows()
    assert refusal("run", "dags/pipeline.yaml", exits=16).case == "TargetHasLeftovers"
    assert region.rows() == before


def test_a_zombie_of_a_region_that_is_gone_writes_nothing(region: World) -> None:
    answer("region", "rename", region.region, "departures", "--apply")
    ledger = region.ledger()
    with pytest.raises(Refused), ledger.deciding(region.region, 1, "publish"):
        raise AssertionError
    with pytest.raises(Fenced), ledger.deciding("departures", 1, "publish"):
        raise AssertionError


@pytest.mark.parametrize("verb", [("drop",), ("rename", "departures")])
def test_a_region_that_is_not_at_rest_stays(region: World, verb: tuple[str, ...]) -> None:
    region.open("another")
    before = dump(region.warehouse)
    name, *rest = verb
    told = refusal("region", name, region.region, *rest, "--apply", exits=16)
    assert told.case == "RegionNotAtRest"
    assert dump(region.warehouse) == before
    tidemark("reset", region.region, "--apply")
    tidemark("region", name, region.region, *rest, "--apply")


@pytest.mark.parametrize("verb", [("drop",), ("rename", "departures")])
def test_a_region_leaves_no_staging_under_its_old_name(
    region: World, verb: tuple[str, ...]
) -> None:
    """S18: nobody would look for it there."""
    table = f'tidemark_staging."{region.region}_1_reads"'
    region.sql(f"CREATE TABLE {table} ()")
    name, *rest = verb
    with closing(psycopg2.connect(**region.warehouse)) as session:
        session.cursor().execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
        before = dump(region.warehouse)
        told = refusal("region", name, region.region, *rest, "--apply", exits=16)
        assert told == ("StagingInUse", {"region": region.region, "batches": [1]})
        assert dump(region.warehouse) == before
    tidemark("region", name, region.region, *rest, "--apply")
    assert staging(region) == []


def test_a_ledger_from_before_a_rename_goes_on_above_its_epochs(region: World) -> None:
    """B2: restored, it has the old name; Kafka's offsets bear the new one, and a newer epoch."""
    answer("region", "rename", region.region, "departures", "--apply")
    region.sql("UPDATE tidemark.regions SET region = %s, epoch = 1", (region.region,))
    told = tidemark("run", "dags/pipeline.yaml").stdout
    assert "the ledger is older than its mirror" in told
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(3,)]


def test_a_dry_run_is_refused_where_the_region_is_not_at_rest(region: World) -> None:
    region.open("another")
    for verb in (("drop", region.region), ("rename", region.region, "departures")):
        assert refusal("region", *verb, exits=16).case == "RegionNotAtRest"


def test_a_run_that_opens_after_the_look_wins(region: World) -> None:
    ledger = region.ledger()
    state = ledger.region_state(region.region)
    assert state
    region.run("another")
    before = dump(region.warehouse)
    with pytest.raises(Superseded):
        naming.drop_region(ledger.engine, state, ORDER)
    with pytest.raises(Superseded):
        naming.rename(ledger.engine, state, "departures", ORDER)
    assert dump(region.warehouse) == before


@pytest.mark.parametrize("new", ["Departures", "", "a b", "x" * 41])
def test_what_is_no_name_is_wrong_usage(region: World, new: str) -> None:
    told = refusal("region", "rename", region.region, new, "--apply", exits=2)
    assert told == ("NewNameMalformed", {"name": new})


@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_a_name_that_is_taken_is_refused(region: World, apply: tuple[str, ...]) -> None:
    """By a region of the ledger, or by the file of another one; the dry run says so too."""
    rename = ("region", "rename", region.region)
    assert refusal(*rename, region.region, *apply, exits=16).case == "RegionNameTaken"
    file = yaml.safe_load(Path(PIPELINE).read_text())
    other = Path("dags/other.yaml")
    other.write_text(yaml.safe_dump(file | {"region": "arrivals"}))
    told = refusal(*rename, "arrivals", *apply, exits=16)
    assert (told.case, told.fields["file"]) == ("NameOfAnotherFile", str(other))
    kafka = file["kafka"] | {"group": region.pipeline.group}
    other.write_text(yaml.safe_dump(file | {"region": "arrivals", "kafka": kafka}))
    tidemark(*rename, "arrivals", *apply)  # it was written beforehand


def test_a_region_without_a_file_is_dropped_by_its_connection(region: World) -> None:
    """S18: listed and dropped from the ledger alone; what was done to it can be read."""
    Path(PIPELINE).unlink()
    ledger = ("--connection", "tidemark_warehouse")
    [found] = answer("region", "list", *ledger)
    assert (found["region"], found["has_file"]) == (region.region, False)
    told = refusal("region", "drop", "elsewhere", *ledger, exits=16)
    assert told == ("NotInLedger", {"region": "elsewhere", "known": [region.region]})
    dropped = answer("region", "drop", region.region, *ledger, "--apply", "--why", "moved")
    assert dropped["size"]["batches"] == 3
    assert answer("region", "list", *ledger) == []
    assert "no region has opened" in tidemark("region", "list", *ledger).stdout
    [done] = answer("region", "actions", *ledger)
    assert (done["kind"], done["region"], done["why"]) == ("drop", region.region, "moved")
    assert "batches 3" in tidemark("region", "actions", region.region, *ledger).stdout
    assert answer("region", "actions", "elsewhere", *ledger) == []
    of_none = tidemark("region", "actions", "elsewhere", *ledger).stdout
    assert of_none.startswith("nothing was done to region elsewhere")


def test_a_name_that_was_given_up_gives_no_epoch_twice(region: World) -> None:
    """Renamed away and back: the epochs only grow, the seqs too."""
    answer("region", "rename", region.region, "departures", "--apply")
    renamed(region, "departures")
    given_out = '{"epoch": 40, "next_seq": 9}'
    region.sql(f"UPDATE tidemark.actions SET details = details || '{given_out}'")
    found = answer("region", "rename", "departures", region.region, "--apply")
    assert found["epoch"] == 41
    assert region.sql("SELECT next_seq FROM tidemark.regions") == [(9,)]
