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
from tests.support.commands import (
    answer,
    commit,
    refusal,
    settle_in,
    tidemark,
    write_pipeline,
)
from tests.support.databases import administer
from tests.support.filled import copied
from tests.support.produce import numbered, produce, produce_transaction
from tests.support.region import ask, kafka_connection, postgres_connection
from tests.support.world import World, dump

from tidemark.cli.asking import PATIENCE
from tidemark.kafka.facts import Broker
from tidemark.ledger.migrate import newest
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
    assert found["complete_at"] == answer("complete", region.region)["complete_at"]
    shown = tidemark("status", region.region).stdout
    assert f"{region.topic}[1]" in shown


def test_status_shows_an_offset_that_drifted(region: World) -> None:
    before = region.kafka_offsets()[region.partition(0)]
    commit(region, region.partition(0), 4)
    found = answer("status", region.region)
    commit(region, region.partition(0), before)
    assert (found["partitions"][0]["kafka"], found["partitions"][0]["drift"]) == (4, -9)
    assert found["drifting"] == 1


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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_frozen_kafka_is_waited_for_once_whatever_the_number_of_regions(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    ping = Broker.ping

    def counted(broker: Broker, seconds: float) -> None:
        asked.append(seconds)
        ping(broker, seconds)

    text = Path("dags/pipeline.yaml").read_text()
    Path("dags/other.yaml").write_text(text.replace(f"region: {region.region}", "region: other"))
    with closing(socket.socket()) as frozen:
        frozen.bind(("127.0.0.1", 0))
        frozen.listen()
        place = f"127.0.0.1:{frozen.getsockname()[1]}"
        monkeypatch.setenv(*kafka_connection(place).to_env())
        monkeypatch.setattr(Broker, "ping", counted)
        found = answer("status", exits=1)
    assert asked == [PATIENCE]
    assert ["_TIMED_OUT" in one["problem"] for one in found] == [True, True]


def test_a_ledger_that_lacks_a_region_which_kafka_knows_is_another_one(
    region: World, stack: LocalStack, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login for readers, or the worker's own, leads to another database: all looks new there."""
    with copied(stack, template=migrated) as other:
        monkeypatch.setenv(*postgres_connection(other).to_env())
        found = answer("status", region.region, exits=1)
        assert (found["verdict"]["level"], found["state"]) == ("unknown", "never opened")
        assert "under its epoch 1" in found["problem"]
        ask(
            other,
            "INSERT INTO tidemark.actions (region, kind, requested_by, why)"
            f" VALUES ('{region.region}', 'drop', 'ada', 'why')",
        )
        assert answer("status", region.region)["verdict"]["level"] == "new"


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


@pytest.mark.long
def test_changes_that_do_not_fit_are_not_accepted(region: World) -> None:
    """B20: also by a run that has no record to write."""
    write_pipeline(region, decode={"metadata": ["key"]})
    before = dump(region.warehouse)
    told = refusal("run", "dags/pipeline.yaml", "--accept-changes", exits=14)
    assert (told.case, len(told.fields["differences"])) == ("TargetDoesNotFit", 1)
    assert dump(region.warehouse) == before


@pytest.mark.long
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


@pytest.mark.long
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


def findings(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in found["checks"]}


def states(found: dict[str, Any]) -> dict[str, str]:
    return {check: one["state"] for check, one in findings(found).items()}


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


@pytest.mark.long
def test_check_names_the_settings_of_a_database_that_runs_do_not_heed(
    region: World, stack: LocalStack
) -> None:
    """And one that no session of ours may change: it is refused, as a run would be."""
    name = region.warehouse["dbname"]
    region.sql(f"ALTER DATABASE {name} SET transaction_timeout = '5min'")
    settings = findings(answer("check", "dags/pipeline.yaml", "--no-spark"))["Postgres settings"]
    assert settings["state"] == "ok"
    assert "transaction_timeout=5min" in settings["fact"]
    administer(stack.postgres, "ALTER DATABASE {} SET session_replication_role = replica", name)
    found = findings(answer("check", "dags/pipeline.yaml", "--no-spark", exits=1))
    assert found["Postgres server"]["state"] == "failed"
    assert "session_replication_role" in found["Postgres server"]["fact"]


@pytest.mark.long
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
    assert refused.case == "TargetRightMissing"
    (view,) = (one for one in found["checks"] if one["check"] == "view tidemark.region_status")
    assert (view["state"], view["fact"]) == ("ok", f"read by {owner.login}")


@pytest.mark.long
def test_check_looks_at_every_topic_that_a_pattern_matches(region: World) -> None:
    write_pipeline(region, kafka={"topics": [f"^{region.topic[:-2]}.*"]})
    found = {one["check"]: one for one in answer("check", "dags/pipeline.yaml", exits=1)["checks"]}
    assert found["topics"]["fact"].startswith(region.topic)
    assert found[f"topic {region.topic}"]["state"] == "ok"
    said = found[f"region {region.region}"]
    assert "--accept-changes" in said["fact"] + said["remedy"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "name", "code"),
    [
        (signal.SIGINT, "INTERRUPTED", 130),
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
