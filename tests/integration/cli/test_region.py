"""`tidemark region`: what a drop leaves, and that no zombie comes back."""

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import cast

import psycopg2
import pytest
from tests.integration.cli.conftest import GROWS
from tests.support.commands import PIPELINE, answer, refusal, tidemark, write_pipeline
from tests.support.world import World, dump, staging

from tidemark.errors import Fenced, Superseded
from tidemark.ledger import removing
from tidemark.ledger.actions import Order
from tidemark.postgres.session import Cursor
from tidemark.staging.errors import TargetHasLeftovers
from tidemark.staging.target import Target, refuse_leftovers

LEDGER = ("partitions", "batches", "spans", "contributions", "members", "runs", "run_targets",
          "dead_letters", "resets", "undo", "undo_columns",
          "deleted_keys", "regions")  # fmt: skip
ORDER = Order("test", "a test")
ROOT = Path(__file__).resolve().parents[3]


def rows_of(world: World, region: str) -> dict[str, int]:
    """How many rows each table of the ledger has of a region."""
    return {
        table: world.sql(f"SELECT count(*) FROM tidemark.{table} WHERE region = %s", (region,))[0][
            0
        ]
        for table in LEDGER
    }


@pytest.mark.long
def test_regions_are_listed_also_those_without_a_file(region: World) -> None:
    [found] = answer("region", "list")
    assert (found["region"], found["state"], found["head_seq"]) == (region.region, "closed", 3)
    assert (found["target"], found["dead_letters"], found["has_file"]) == (
        "public.records", 2, True
    )  # fmt: skip
    write_pipeline(region, region="other", kafka={"group": region.pipeline.group})
    assert [one["has_file"] for one in answer("region", "list")] == [False]
    assert region.region in tidemark("region", "list").stdout


@pytest.mark.long
def test_a_dry_run_writes_nothing(region: World) -> None:
    before, offsets = dump(region.warehouse), region.kafka_offsets()
    told = tidemark("region", "drop", region.region).stdout
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    assert region.kafka_offsets() == offsets


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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_region_of_another_name_does_not_take_the_rows_for_its_own(region: World) -> None:
    """B4: its seqs would begin at 1 again, and its rewinds remove the old region's rows."""
    answer("region", "drop", region.region, "--apply")
    write_pipeline(
        region, region="another", kafka={"start": "committed", "group": region.pipeline.group}
    )
    before = region.rows()
    assert refusal("run", "dags/pipeline.yaml", exits=16).case == "TargetHasLeftovers"
    assert region.rows() == before


@pytest.mark.long
def test_a_region_that_is_not_at_rest_stays(region: World) -> None:
    region.open("another")
    before = dump(region.warehouse)
    told = refusal("region", "drop", region.region, "--apply", exits=16)
    assert told.case == "RegionNotAtRest"
    assert dump(region.warehouse) == before
    tidemark("reset", region.region, "--apply")
    tidemark("region", "drop", region.region, "--apply")


@pytest.mark.long
def test_a_dropped_region_leaves_no_staging(region: World) -> None:
    """S18: nobody would look for it any more."""
    table = f'tidemark_staging."{region.region}_1_reads"'
    region.sql(f"CREATE TABLE {table} ()")
    with closing(psycopg2.connect(**region.warehouse)) as session:
        session.cursor().execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
        before = dump(region.warehouse)
        told = refusal("region", "drop", region.region, "--apply", exits=16)
        assert told == ("StagingInUse", {"region": region.region, "batches": [1]})
        assert dump(region.warehouse) == before
    tidemark("region", "drop", region.region, "--apply")
    assert staging(region) == []


@pytest.mark.long
def test_a_run_that_opens_after_the_look_wins(region: World) -> None:
    ledger = region.ledger()
    state = ledger.region_state(region.region)
    assert state
    region.run("another")
    before = dump(region.warehouse)
    with pytest.raises(Superseded):
        removing.drop_region(ledger.engine, state, ORDER)
    assert dump(region.warehouse) == before


@pytest.mark.long
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
    assert refusal("region", "actions", "elsewhere", *ledger, exits=16).case == "NotInLedger"


@pytest.mark.long
def test_a_list_says_which_files_it_could_not_read(region: World) -> None:
    Path("dags/typo.yaml").write_text("regoin: flights")
    for listed in ("list", "actions"):
        assert "not a pipeline: dags/typo.yaml" in tidemark("region", listed).stderr
    nothing = tidemark("region", "actions", region.region).stdout
    assert nothing.startswith(f"nothing was done to region {region.region}")


@GROWS
def test_a_name_that_was_given_up_gives_no_epoch_twice(region: World) -> None:
    """By a drop, or by an older version's renaming: the epochs only grow, the seqs too."""
    answer("region", "drop", region.region, "--apply")
    region.sql("INSERT INTO tidemark.actions (region, kind, requested_by, why, details)"
               " VALUES (%s, 'rename', 'x', 'x', '{\"epoch\": 40, \"next_seq\": 9}')",
               (region.region,))  # fmt: skip
    write_pipeline(region, kafka={"start": "committed"}, target={"table": "public.again"})
    region.produce(1, start=300)
    tidemark("run", "dags/pipeline.yaml")
    assert region.sql("SELECT epoch, head_seq FROM tidemark.regions") == [(41, 9)]


def documented(heading: str) -> list[str]:
    """The blocks of commands below a heading of docs/administration.md."""
    page = (ROOT / "docs" / "administration.md").read_text()
    _, _, section = page.partition(f"\n### {heading}\n")
    return re.findall(r"```\w+\n(.*?)```", section.partition("\n#")[0], re.DOTALL)


@GROWS
@pytest.mark.parametrize("table", ["records", pytest.param("others", marks=pytest.mark.long)])
def test_a_region_gets_another_name_and_group_as_the_docs_say(region: World, table: str) -> None:
    """B2, B4: the documented commands; every record is one row, in the old table or another."""
    commands, statements = documented("Another name or group")
    new, rows = f"{region.region}_new", len(region.rows())
    Path("dags/old.yaml").write_text(Path(PIPELINE).read_text())
    target = {"table": f"public.{table}"}
    write_pipeline(region, region=new, kafka={"start": "committed"}, target=target)
    own = commands.replace("departures", new).replace("flights", region.region)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euc", own], env=os.environ | {"PATH": path}, check=True)
    region.sql(statements.replace("flights", "records"))
    region.produce(3, start=300)
    tidemark("run", PIPELINE)
    kept = {"records": rows, "others": 0}[table]
    assert region.sql(f"SELECT count(*) FROM {table}") == [(kept + 3,)]
    assert answer("verify", new)["wrong"] == 0
    assert [one["region"] for one in answer("region", "list")] == [new]
