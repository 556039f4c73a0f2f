"""The commands on a real ledger and broker."""

import os
import signal
import socket
import subprocess
import sys
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.commands import (
    answer,
    commit,
    refusal,
    settle_in,
    tidemark,
    write_pipeline,
)
from tests.support.produce import numbered, produce, produce_transaction
from tests.support.region import ask, kafka_connection, postgres_connection
from tests.support.world import World, dump

from tidemark.admin import run as run_module
from tidemark.kafka.description import Holder
from tidemark.kafka.group import Group
from tidemark.ledger.migrate import newest
from tidemark.model.offsets import TopicPartition
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack


def test_status_shows_ledger_kafka_end_lag_and_drift(region: World) -> None:
    found = answer("status", region.region)
    assert (found["state"], found["epoch"], found["head_seq"]) == ("closed", 1, 3)
    assert (found["run_id"], found["unpublished_seq"], found["problem"]) == ("run", None, None)
    assert found["partitions"][0] == {
        "topic": region.topic, "partition": 0, "ledger": 13, "kafka": 13, "end": 13,
        "lag": 0, "drift": 0, "is_read": True,
    }  # fmt: skip
    shown = tidemark("status", region.region).stdout
    assert f"{region.topic}[1]" in shown


def test_status_shows_an_offset_that_drifted(region: World) -> None:
    before = region.kafka_offsets()[region.partition(0)]
    commit(region, region.partition(0), 4)
    found = answer("status", region.region)
    commit(region, region.partition(0), before)
    assert (found["partitions"][0]["kafka"], found["partitions"][0]["drift"]) == (4, -9)
    assert found["drifting"] == 1


def test_status_shows_members_remarks_and_what_can_be_restored(region: World) -> None:
    region.sql("UPDATE tidemark.runs SET remarks = ARRAY['a remark'], overrides = ARRAY['told']")
    region.sql("UPDATE tidemark.regions SET oldest_seq = 2, consecutive_resets = 3")
    found = answer("status", region.region)
    assert (found["oldest_seq"], found["consecutive_resets"]) == (2, 3)
    assert (found["remarks"], found["overrides"]) == (["a remark"], ["told"])
    assert [(one["name"], one["state"]) for one in found["members"]] == [("m1", "done")]
    told = tidemark("status", region.region).stdout
    lines = "restorable    from checkpoint 2", "remark        a remark", "resets        3 in a row"
    assert {*lines} < {*told.splitlines()}


def test_status_counts_the_targets_rows_when_told(region: World) -> None:
    """B13."""
    told = {"name": "", "table": "public.records", "since_seq": 0, "ledger": 17}
    assert answer("status", region.region)["targets"][0] == told | {"counted": None, "drift": None}
    found = answer("status", region.region, "--count")["targets"][0]
    assert found == told | {"counted": 17, "drift": 0}
    region.sql("DELETE FROM public.records WHERE kafka_partition = 1 AND kafka_offset = 6")
    assert answer("status", region.region, "--count")["targets"][0]["drift"] == -1
    shown = tidemark("status", region.region, "--count").stdout
    assert "16 counted, -1 DRIFT" in shown
    assert "17 rows by the ledger" in shown
    assert "dead letters  2\n" in shown


def test_status_counts_only_what_the_ledger_retains(region: World) -> None:
    region.sql("UPDATE tidemark.regions SET oldest_seq = 3")
    found = answer("status", region.region, "--count")["targets"][0]
    assert (found["since_seq"], found["drift"]) == (3, 0)
    assert 0 < found["ledger"] < 17


def test_status_without_a_region_is_a_line_for_each(region: World) -> None:
    text = Path("dags/pipeline.yaml").read_text()
    Path("dags/other.yaml").write_text(text.replace(f"region: {region.region}", "region: other"))
    Path("dags/compose.yaml").write_text("services: {}")
    told = tidemark("status")
    assert [line.split()[:2] for line in told.stdout.splitlines()[1:]] == [
        ["other", "new"], [region.region, "well"],
    ]  # fmt: skip
    assert "not a pipeline: dags/compose.yaml" in told.stderr
    assert [one["state"] for one in answer("status")] == ["never opened", "closed"]


def test_status_keeps_the_ledger_when_kafka_is_silent(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.kafka.admin.SECONDS", 1)
    monkeypatch.setattr("tidemark.kafka.facts.SECONDS", 1)
    monkeypatch.setenv(*kafka_connection("127.0.0.1:1").to_env())
    found = answer("status", region.region, exits=1)
    assert found["problem"].startswith("UNREACHABLE: ")
    assert found["partitions"][0]["ledger"] == 13
    assert found["lag"] is None


def test_checkpoints_are_listed_newest_first_with_their_offsets(region: World) -> None:
    found = answer("checkpoints", region.region, "--last", "2")
    assert [one["seq"] for one in found] == [3, 2]
    assert found[0]["offsets"] == {str(p): o for p, o in sorted(region.ledger_offsets().items())}
    assert sum(one["rows"] for one in answer("checkpoints", region.region)) == 17
    assert tidemark("checkpoints", region.region).stdout.splitlines()[1].split()[0] == "3"


def test_dead_letters_are_inert_in_a_terminal(region: World) -> None:
    region.sql(
        "UPDATE tidemark.dead_letters SET value = %s, key = %s, detail = %s WHERE partition = 0",
        (b"\x1b]0;evil\x07[red]x[/red]" + b"y" * 90, b"\xff", "a\nb"),
    )
    for flags in ([], ["--raw"], ["-o", "json"]):
        told = tidemark("dead-letters", region.region, *flags).stdout
        assert "\x1b" not in told
        assert "\x07" not in told
    shown = tidemark("dead-letters", region.region).stdout
    assert r"\x1b]0;evil\x07[red]x[/red]y" in shown
    assert "y" * 90 not in shown
    assert "y" * 90 in tidemark("dead-letters", region.region, "--raw").stdout
    assert len(answer("dead-letters", region.region, "--limit", "1")) == 1


def test_dead_letters_show_the_rows_that_the_target_refused(region: World) -> None:
    """B15: the record itself is not kept."""
    region.sql(
        "UPDATE tidemark.dead_letters SET value = NULL, refused_rows = %s WHERE partition = 0",
        ('[{"v": "x\\u001b\\u009b]0;evil"}]',),
    )
    for flags in ([], ["--raw"]):
        told = tidemark("dead-letters", region.region, *flags).stdout
        assert '[{"v": "x' in told
        assert "\x1b" not in told
        assert "\x9b" not in told
    kept = [one["refused_rows"] for one in answer("dead-letters", region.region)]
    assert [{"v": "x\x1b\x9b]0;evil"}] in kept


def test_a_dry_reset_says_what_would_change_and_writes_nothing(region: World) -> None:
    before, offsets = dump(region.warehouse), region.kafka_offsets()
    told = tidemark("reset", region.region).stdout
    assert "dry run" in told.splitlines()[0]
    assert "epoch       1 -> 2" in told
    assert "head        batch 3 stays; no row of public.records is removed" in told
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert answer("reset", region.region)["applied"] is False
    assert dump(region.warehouse) == before
    assert region.kafka_offsets() == offsets


def test_a_reset_applies_and_leaves_its_reason(region: World) -> None:
    found = answer("reset", region.region, "--apply", "--why", "a drill")
    assert (found["applied"], found["epoch"], found["head_seq"]) == (True, 2, 3)
    ((who, why, state),) = region.sql("SELECT requested_by, why, state FROM tidemark.resets")
    assert "@" in who
    assert (why, state) == ("a drill", "finished")
    found = answer("status", region.region)
    assert (found["state"], found["run_id"], found["verdict"]["level"]) == ("reset", "run", "well")


def test_a_failed_run_is_told_also_after_its_reset(region: World) -> None:
    region.sql("UPDATE tidemark.runs SET state = 'failed', reason = 'batch 4 is planned'")
    region.reset("run")
    found = answer("status", region.region)
    assert (found["state"], found["reason"]) == ("reset", "batch 4 is planned")
    assert found["verdict"]["level"] == "red"


def test_a_region_that_never_opened_is_refused_with_16(region: World) -> None:
    Path("dags/other.yaml").write_text(
        Path("dags/pipeline.yaml").read_text().replace(f"region: {region.region}", "region: other")
    )
    assert refusal("reset", "other", exits=16) == ("RegionNeverOpened", {"region": "other"})


def test_verify_is_clean_and_finds_what_is_not(region: World) -> None:
    found = answer("verify", region.region)
    assert (found["clean"], found["wrong"], found["unverifiable"]) == (True, 0, 0)
    assert [batch["verdict"] for batch in found["batches"]] == ["equal"] * 3
    assert "nothing wrong" in tidemark("verify", region.region, "--last", "1").stdout
    region.sql("DELETE FROM public.records WHERE kafka_partition = 1 AND kafka_offset = 6")
    told = tidemark("verify", region.region, exits=1).stdout
    assert f"lost  row {region.topic}[1]@6 of batch" in told
    assert answer("verify", region.region, exits=1)["clean"] is False


def test_migrate_makes_the_ledger_once(region: World) -> None:
    region.sql("DROP SCHEMA tidemark, tidemark_staging CASCADE")
    path = "dags/pipeline.yaml"
    assert answer("migrate", path) == {"revision": newest(), "changed": True}
    assert answer("migrate", path) == {"revision": newest(), "changed": False}


def test_the_ledger_can_be_made_from_the_printed_statements(region: World) -> None:
    region.sql("DROP SCHEMA tidemark, tidemark_staging CASCADE")
    statements = tidemark("migrate", "--sql").stdout
    with closing(region.ledger().engine.raw_connection()) as connection:
        connection.cursor().execute(statements)
        connection.commit()
    assert answer("migrate", "dags/pipeline.yaml")["changed"] is False


def test_a_current_ledger_needs_no_printed_statements(region: World) -> None:
    nothing = tidemark("migrate", "--sql", "dags/pipeline.yaml")
    assert nothing.stdout == ""
    assert f"at revision {newest()}: there is nothing to run" in nothing.stderr


def test_a_ledger_of_a_newer_version_is_refused_and_check_says_so(region: World) -> None:
    region.sql("UPDATE tidemark.alembic_version SET version_num = '9999'")
    for command in (["run"], ["migrate"], ["migrate", "--sql"]):
        told = refusal(*command, "dags/pipeline.yaml", exits=16)
        assert (told.case, told.fields["revision"]) == ("LedgerIsNewer", "9999")
    shown = tidemark("check", "dags/pipeline.yaml", "--no-spark", exits=1).stdout
    assert "the ledger is at revision 9999" in shown
    assert "upgrade Tidemark" in shown


def test_a_run_without_airflow(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(world, tmp_path, monkeypatch)
    world.produce(5)
    found = answer("run", "dags/pipeline.yaml", "--max-records", "2", "--max-batches", "2")
    assert (found["batches"], found["rows"], found["seq"]) == (2, 4, 2)
    assert found["offsets"][str(world.partition(0))] == 4
    assert "1 batch, 1 row," in tidemark("run", "dags/pipeline.yaml").stdout
    assert answer("verify", world.region)["clean"]
    assert [run for (run,) in world.sql("SELECT run_id FROM tidemark.runs") if "cli/" in run]


def test_changed_settings_are_refused_unless_accepted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(world, tmp_path, monkeypatch)
    world.produce(2)
    tidemark("run", "dags/pipeline.yaml")
    write_pipeline(world, decode={"metadata": ["key"]})
    refused = refusal("run", "dags/pipeline.yaml", exits=16)
    assert refused.case == "ChangedSinceCheckpoint"
    assert refused.fields["changes"] == ["decode.metadata was '' and is 'key'"]
    found, output = failures("check", "dags/pipeline.yaml", "--no-spark")
    assert "decode.metadata was '' and is 'key'" in found["fact"]
    assert "does not fit" in output["fact"]  # without a transform the columns are known
    world.sql("ALTER TABLE public.records ADD COLUMN kafka_key bytea")
    remark = "accepted: decode.metadata was '' and is 'key'"
    told = tidemark("run", "dags/pipeline.yaml", "--accept-changes").stdout
    assert f"remark: {remark}" in told
    assert answer("status", world.region)["remarks"] == [remark]
    # A member that left before it had joined stays in the group until its session ends.
    assert answer("run", "dags/pipeline.yaml", "--take-over")["remarks"] == []


def test_changes_that_do_not_fit_are_not_accepted(region: World) -> None:
    """B20: also by a run that has no record to write."""
    write_pipeline(region, decode={"metadata": ["key"]})
    before = dump(region.warehouse)
    told = refusal("run", "dags/pipeline.yaml", "--accept-changes", exits=14)
    assert (told.case, len(told.fields["differences"])) == ("TargetDoesNotFit", 1)
    assert dump(region.warehouse) == before


def failures(*arguments: str) -> list[dict[str, Any]]:
    """The findings of a check that fail."""
    checks = answer(*arguments, exits=1)["checks"]
    return [one for one in checks if one["state"] == "failed"]


def test_lost_records_stop_a_run_unless_accepted(
    world: World, admin: AdminClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(world, tmp_path, monkeypatch)
    world.produce(4)
    tidemark("run", "dags/pipeline.yaml", "--max-records", "1", "--max-batches", "1")
    where = KafkaPartition(world.topic, 0, 3)
    admin.delete_records([where])[where].result(120)
    assert refusal("run", "dags/pipeline.yaml", exits=13).case == "NextOffsetsNotHeld"
    told = answer("run", "dags/pipeline.yaml", "--accept-data-loss")
    assert told["remarks"] == [f"accepted: {world.topic}[0] goes on at 3, the ledger stood at 1"]
    assert world.rows() == [(0, 0), (0, 3)]
    overrides = world.sql("SELECT overrides FROM tidemark.runs ORDER BY epoch DESC LIMIT 1")
    assert overrides == [(["accept_data_loss"],)]


def test_a_wrong_password_is_one_line_without_it(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = region.warehouse | {"password": "not-this-one"}
    monkeypatch.setenv(*postgres_connection(wrong).to_env())
    for command in ("checkpoints", "verify", "dead-letters"):
        told = tidemark(command, region.region, exits=1)
        assert told.stderr.startswith("UNREACHABLE: Postgres")
        assert "not-this-one" not in told.output
    assert tidemark("migrate", "dags/pipeline.yaml", exits=1).stderr.startswith("UNREACHABLE: ")


def test_preview_shows_rows_and_writes_nothing(region: World) -> None:
    before = dump(region.warehouse)
    found = answer("preview", "dags/pipeline.yaml", "--limit", "3")
    assert [row["kafka_offset"] for row in found["rows"]] == [0, 1, 2]
    assert found["dead_letters"] == []
    assert "value 0" in tidemark("preview", "dags/pipeline.yaml").stdout
    assert dump(region.warehouse) == before


def test_preview_shows_dead_letters_with_their_reason(region: World) -> None:
    settings = yaml.safe_load(Path("dags/pipeline.yaml").read_text())
    settings["decode"] = {"format": "json", "schema": {"value": "int"}}
    Path("dags/pipeline.yaml").write_text(yaml.safe_dump(settings))
    found = answer("preview", "dags/pipeline.yaml", "--limit", "2")
    assert found["rows"] == []
    assert [one["reason"] for one in found["dead_letters"]] == ["WRONG_TYPE"] * 2
    assert "2 dead letters" in tidemark("preview", "dags/pipeline.yaml", "--limit", "2").stdout


def test_preview_counts_the_first_records_and_no_later_one(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker has taken an offset: a second look, which is wider, finds the third record."""
    settle_in(world, tmp_path, monkeypatch)
    produce_transaction(world.kafka, world.topic, numbered(1))
    produce(world.kafka, world.topic, [b"bad", *numbered(1), b"bad", *numbered(1)])
    found = answer("preview", "dags/pipeline.yaml", "--limit", "3")
    assert found["records"] == 3
    assert [row["kafka_offset"] for row in found["rows"]] == [0, 3]
    assert [one["offset"] for one in found["dead_letters"]] == [2]


def states(found: dict[str, Any]) -> dict[str, str]:
    return {one["check"]: one["state"] for one in found["checks"]}


def test_check_is_well_with_a_region_that_runs(region: World) -> None:
    found = answer("check", "dags/pipeline.yaml", "--no-spark")
    assert found["ok"] is True
    assert set(states(found).values()) == {"ok", "skipped"}
    told = tidemark("check", "dags/pipeline.yaml").stdout
    assert 'columns fit "public"."records"' in told
    assert "all is well" in told


def test_check_names_each_fault_with_its_remedy(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = postgres_connection(region.warehouse)
    careless = replace(off, extra={"options": "-c synchronous_commit=off"})
    monkeypatch.setenv(*careless.to_env())
    settings = yaml.safe_load(Path("dags/pipeline.yaml").read_text())
    settings["kafka"]["topics"] = ["no-such-topic"]
    settings["transform"] = "no.such:module"
    Path("dags/pipeline.yaml").write_text(yaml.safe_dump(settings))
    told = tidemark("check", "dags/pipeline.yaml", "--no-spark", exits=1).stdout
    for fact, remedy in (
        ("topic no-such-topic does not exist", "create it or correct kafka.topics"),
        ("synchronous_commit is off", "set synchronous_commit = on"),
        ("transform no.such:module: No module named", "name an importable module:function"),
    ):
        assert fact in told
        assert remedy in told


def test_check_names_missing_rights(
    region: World, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"r_{uuid.uuid4().hex[:8]}"
    poor = region.warehouse | {"user": role, "password": "x"}
    monkeypatch.setenv(*postgres_connection(poor).to_env())
    administrator = stack.postgres.parameters("postgres", ADMIN)
    ask(administrator, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        found = answer("check", "dags/pipeline.yaml", "--no-spark", exits=1)
    finally:
        ask(administrator, f"DROP ROLE {role}")
    remedies = {one["check"]: one["remedy"] for one in found["checks"]}
    assert f'GRANT USAGE, CREATE ON SCHEMA tidemark_staging TO "{role}"' in remedies.values()
    assert f'GRANT INSERT ON "public"."records" TO "{role}"' in remedies.values()
    assert "tidemark" in remedies["schema tidemark"]


def test_check_warns_of_a_role_that_may_run_but_not_rewind(
    region: World, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"r_{uuid.uuid4().hex[:8]}"
    administrator = stack.postgres.parameters("postgres", ADMIN)
    ask(administrator, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    for grant in (
        "USAGE ON SCHEMA tidemark, public", "USAGE, CREATE ON SCHEMA tidemark_staging",
        "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidemark",
        "INSERT ON public.records",
    ):  # fmt: skip
        region.sql(f"GRANT {grant} TO {role}")
    owner = postgres_connection(region.warehouse)
    poor = postgres_connection(region.warehouse | {"user": role, "password": "x"})
    monkeypatch.setenv(*poor.to_env())
    try:
        found = answer("check", "dags/pipeline.yaml", "--no-spark")
        shown = tidemark("check", "dags/pipeline.yaml", "--no-spark").stdout
        refused = refusal("reset", region.region, "--to", "1", "--apply", exits=16)
    finally:
        monkeypatch.setenv(*owner.to_env())
        ask(administrator | {"dbname": region.warehouse["dbname"]}, f"DROP OWNED BY {role}")
        ask(administrator, f"DROP ROLE {role}")
    (rewinds,) = (one for one in found["checks"] if one["check"] == "rewinds")
    assert rewinds["state"] == "warned"
    assert rewinds["remedy"] == f'GRANT SELECT, DELETE ON "public"."records" TO "{role}"'
    assert "all is well, 1 to look at" in shown
    assert refused.case == "RowsMayNotBeDeleted"
    (view,) = (one for one in found["checks"] if one["check"] == "view tidemark.region_status")
    assert (view["state"], view["fact"]) == ("ok", f"read by {owner.login}")


def test_check_looks_at_every_topic_that_a_pattern_matches(region: World) -> None:
    write_pipeline(region, kafka={"topics": [f"^{region.topic[:-2]}.*"]})
    found = {one["check"]: one for one in answer("check", "dags/pipeline.yaml", exits=1)["checks"]}
    assert found["topics"]["fact"].startswith(region.topic)
    assert found[f"topic {region.topic}"]["state"] == "ok"
    said = found[f"region {region.region}"]
    assert "--accept-changes" in said["fact"] + said["remedy"]


def test_check_names_a_session_that_the_broker_would_refuse(region: World) -> None:
    write_pipeline(region, kafka={"session_timeout_seconds": 3600})
    (found,) = failures("check", "dags/pipeline.yaml", "--no-spark")
    assert found["check"] == "group session time-out"


def test_a_second_run_beside_the_first_is_refused(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Group, "holders", lambda _: [Holder("tidemark-x-1", "/h", (TopicPartition("t", 0),))]
    )
    write_pipeline(region, kafka={"session_timeout_seconds": 1})
    monkeypatch.setattr(run_module, "EVICTION_SECONDS", -0.9)
    monkeypatch.setattr(run_module, "LEAVE_PAUSE", 0.2)
    assert refusal("run", "dags/pipeline.yaml", exits=16).case == "GroupIsAtWork"


@pytest.mark.parametrize(
    ("number", "name", "code"),
    [
        pytest.param(signal.SIGINT, "INTERRUPTED", 130, marks=pytest.mark.long),
        (signal.SIGTERM, "TERMINATED", 143),
    ],
)
def test_a_signal_ends_a_command_cleanly(region: World, number: int, name: str, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        env = os.environ | dict([kafka_connection(address).to_env()])
        command = [sys.executable, "-m", "tidemark", "status", region.region]
        process = subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A suite that a shell runs in the background inherits an ignored SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        silent.settimeout(60)
        silent.accept()  # now it waits for Kafka
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert out == ""
    assert err.startswith(f"{name}: ")
    assert "Traceback" not in err
