"""The command line without any server: exit codes, errors, lookups, and text that stays inert."""

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.support.schemas import validate
from typer.testing import CliRunner

from tidemark.cli.faults import ConnectionNowhere, RegionWithoutFile
from tidemark.cli.main import COMMANDS, app, command_of
from tidemark.cli.order import whoami
from tidemark.cli.output import cut, print_json, print_table, text_of
from tidemark.cli.project import connection, find_pipeline, prepare_spark
from tidemark.errors import InvalidSettings
from tidemark.model.batch import ONLY, Attempt, Checkpoint
from tidemark.model.offsets import TopicPartition
from tidemark.model.plain import inert, plain
from tidemark.model.state import RegionState
from tidemark.settings.errors import ConnectionUnreadable
from tidemark.settings.pipeline import Pipeline
from tidemark.views.status import brief
from tidemark_local.stack import LocalStack

HEAVY = {"pyspark", "confluent_kafka", "psycopg2", "sqlalchemy", "pydantic", "pyarrow", "httpx"}
PIPELINE = """
region: {region}
kafka: {{connection: nowhere, topics: [t]}}
decode: {{format: raw}}
target: {{connection: nowhere_either, table: public.t}}
"""


@pytest.fixture
def cli() -> CliRunner:
    return CliRunner()


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    for region in ("orders", "clicks"):
        (folder / f"{region}.yaml").write_text(PIPELINE.format(region=region))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tidemark.cli.project.from_local", set())
    return folder


@pytest.mark.parametrize("extra", ["", "spark: {connection: spark_here}"])
def test_a_spark_connection_that_is_named_must_be_there(
    dags: Path, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default one need not: Spark runs here then. One that can't be read is not passed over."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    file = dags / "orders.yaml"
    file.write_text(file.read_text() + extra)
    if extra:
        with pytest.raises(ConnectionNowhere) as missing:
            prepare_spark(Pipeline.load(file))
        assert missing.value.connection == "spark_here"
        return
    prepare_spark(Pipeline.load(file))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "{")
    with pytest.raises(ConnectionUnreadable) as unreadable:
        prepare_spark(Pipeline.load(file))
    assert unreadable.value.conn_id == "spark_default"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tidemark.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('modules', *sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in told.stdout.split("modules ")[-1].split()}
    assert "typer" in modules
    assert not modules & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_says(name: str) -> None:
    assert (command_of(name).help or "").partition("\n\n")[0] == COMMANDS[name]


def test_a_run_without_a_backlog_needs_neither_spark_nor_arrow() -> None:
    """Each costs half a second: they are for a run that drains."""
    code = "import sys, tidemark.admin.run; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyspark", "pyarrow"} & {*told.stdout.split()}


def test_a_driver_needs_no_pandas() -> None:
    """Pyarrow imports it for the first array of a list: a third of what a driver imports."""
    code = "import sys, tidemark.runs._stager, tidemark.spark.executor; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {*told.stdout.split()}
    assert "pyarrow" in modules
    assert "pandas" not in modules


def test_a_name_that_an_option_had_before_is_refused(cli: CliRunner) -> None:
    refused = cli.invoke(app, ["reset", "x", "--reason", "a drill"])
    assert refused.exit_code == InvalidSettings.exit_code
    assert "--reason is --why now" in refused.output
    assert "--reason" not in cli.invoke(app, ["reset", "--help"]).output


@pytest.mark.usefixtures("dags")
def test_a_batch_is_refused_with_the_rewind_that_is_left(cli: CliRunner) -> None:
    """B14: nothing is replayed in its place."""
    refused = cli.invoke(app, ["replay", "orders", "--dead-letters", "--batch", "17", "--apply"])
    assert refused.exit_code == InvalidSettings.exit_code
    assert "`tidemark reset orders --to CHECKPOINT --apply`" in refused.output
    assert "--batch" not in cli.invoke(app, ["replay", "--help"]).output
    assert cli.invoke(app, ["replay", "orders"]).exit_code == InvalidSettings.exit_code


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (("region", "rename", "orders", "clicks", "--apply"), "`tidemark import-offsets`"),
        (("region", "move", "orders", "--why", "a drill"), "`tidemark import-offsets`"),
        (("pack", "environment.tar.gz", "--with", "polars"), "docs/clusters.md"),
    ],
)
def test_a_command_that_is_gone_names_the_way_that_is_left(
    cli: CliRunner, command: tuple[str, ...], instead: str
) -> None:
    bare, told = cli.invoke(app, [*command]), cli.invoke(app, [*command, "-o", "json"])
    error = json.loads(told.stdout)["error"]
    assert (bare.exit_code, told.exit_code, error["case"]) == (2, 2, "CommandGone")
    assert instead in bare.stderr
    group = command[:1] if command[0] == "region" else ()
    listed = cli.invoke(app, [*group, "--help"]).output
    assert not re.search(rf"^\W*{error['fields']['command']}\b", listed, re.MULTILINE)


def test_wrong_usage_exits_with_2(cli: CliRunner) -> None:
    assert cli.invoke(app, ["verify"]).exit_code == 2
    assert cli.invoke(app, ["verify", "x", "--last", "0"]).exit_code == 2
    assert cli.invoke(app, ["migrate"]).exit_code == 2


@pytest.mark.parametrize(
    "command", [["status", "click"], ["region", "drop", "click"], ["verify", "click"]]
)
def test_json_of_a_command_that_fails_is_its_error(
    cli: CliRunner, dags: Path, command: list[str]
) -> None:
    """B22: stderr and the exit code are those of a command without it, whose stdout is empty."""
    bare, told = cli.invoke(app, command), cli.invoke(app, [*command, "-o", "json"])
    assert (told.stderr, told.exit_code, bare.stdout) == (bare.stderr, bare.exit_code, "")
    found = json.loads(told.stdout)
    validate(command, found)
    assert told.stderr == f"{found['error']['code']}: {found['error']['text']}\n"
    assert found["error"]["case"] == "RegionWithoutFile"
    assert found["error"]["fields"] == {
        "region": "click",
        "folder": "dags",
        "known": ["clicks", "orders"],
        "unreadable": [],
    }
    assert found["error"]["hint"] == InvalidSettings.hint


def test_an_error_of_a_library_is_json_too(
    cli: CliRunner, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22"""

    def refuse(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN, "all are down"))

    monkeypatch.setattr("tidemark.cli.offsets.find_pipeline", refuse)
    told = cli.invoke(app, ["offsets", "clicks", "-o", "json"])
    found = json.loads(told.stdout)
    validate(["offsets"], found)
    assert (told.exit_code, found["error"]["code"]) == (1, "UNREACHABLE")
    assert found["error"]["fields"] == {"cause": "all are down"}


def test_exported_offsets_stand_beside_their_own_seq_and_epoch(
    cli: CliRunner, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run publishes between the look at the region and that at its checkpoint."""
    published = Checkpoint("orders", epoch=5, seq=8, offsets={TopicPartition("t", 0): 80})
    region = SimpleNamespace(
        name="orders",
        state=lambda: RegionState("orders", 4, 7, 8, cluster_id="c", group_id="orders"),
        ledger=SimpleNamespace(merged_checkpoint=lambda name: published),
        known_partitions=dict,
    )
    monkeypatch.setattr("tidemark.cli.offsets.connections_of", lambda pipeline: {})
    monkeypatch.setattr("tidemark.cli.offsets.region_of", lambda *_: nullcontext(region))
    found = json.loads(cli.invoke(app, ["offsets", "orders", "-o", "json"]).stdout)
    validate(["offsets"], found)
    assert (found["epoch"], found["seq"], found["offsets"][0]["offset"]) == (5, 8, 80)


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("command", [("status",), ("region", "list"), ("region", "actions")])
def test_a_folder_without_pipelines_is_told(
    cli: CliRunner, tmp_path: Path, command: tuple[str, ...], output: str
) -> None:
    (tmp_path / "notes.yaml").write_text("mood: fine")
    told = cli.invoke(app, [*command, "--pipelines", str(tmp_path), "-o", output])
    assert (told.exit_code, bool(told.stdout)) == (2, output == "json")
    assert told.stderr.startswith("INVALID_SETTINGS: ")
    if output == "json":
        found = json.loads(told.stdout)["error"]
        assert found["case"] == "FolderWithoutPipeline"
        assert found["fields"]["folder"] == str(tmp_path)
        [fault] = found["fields"]["faults"]
        assert fault.startswith(f"{tmp_path}/notes.yaml:")


def test_a_broken_pipeline_file_is_named_and_hides_no_other(dags: Path) -> None:
    (dags / "broken.yaml").write_text("region: [")
    assert find_pipeline("orders", dags).region == "orders"
    with pytest.raises(RegionWithoutFile) as refused:
        find_pipeline("broken", dags)
    assert refused.value.unreadable == (str(dags / "broken.yaml"),)


def test_an_unknown_region_tells_the_closest_one_and_no_faults_of_others(dags: Path) -> None:
    (dags / "notes.yaml").write_text("mood: fine")
    with pytest.raises(RegionWithoutFile) as refused:
        find_pipeline("order", dags)
    assert refused.value.known == ("clicks", "orders")
    assert "did you mean 'orders'?" in str(refused.value)
    assert "mood" not in str(refused.value)


def test_pipelines_and_the_local_stack_are_found_from_any_folder_of_the_project(
    cli: CliRunner, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dags.parent / ".tidemark").mkdir()
    (dags.parent / ".tidemark" / "env").write_text("export AIRFLOW_CONN_A='postgres://here/d'\n")
    (dags.parent / "jobs" / "deep").mkdir(parents=True)
    monkeypatch.chdir(dags.parent / "jobs" / "deep")
    assert connection("a").host == "here"
    assert find_pipeline("orders", Path("dags")).region == "orders"


def test_a_region_can_be_named_by_its_file(dags: Path) -> None:
    assert find_pipeline(str(dags / "clicks.yaml"), Path("elsewhere")).region == "clicks"


def test_the_folder_of_pipelines_comes_from_the_environment(
    cli: CliRunner, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(dags))
    found = json.loads(cli.invoke(app, ["reset", "x", "-o", "json"]).stdout)["error"]
    assert found["fields"]["known"] == ["clicks", "orders"]


def test_a_missing_connection_is_one_line(cli: CliRunner, dags: Path) -> None:
    told = cli.invoke(app, ["checkpoints", "orders", "-o", "json"])
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    found = json.loads(told.stdout)["error"]
    assert (found["case"], found["fields"]["connection"]) == ("ConnectionNowhere", "nowhere")


def test_a_postgres_that_is_away_is_told_once_for_all_its_regions(
    cli: CliRunner, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "127.0.0.1:1"
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", f"kafka://?bootstrap.servers={address}")
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE_EITHER", f"postgres://u:p@{address}/d")
    told = cli.invoke(app, ["status"])
    (line,) = told.stderr.splitlines()
    assert line.startswith("clicks, orders: UNREACHABLE: ")
    assert [row.split() for row in told.stdout.splitlines()[1:]] == [
        ["clicks", "unknown", "unknown"], ["orders", "unknown", "unknown"],
    ]  # fmt: skip


def test_connections_come_from_the_local_stack_where_the_environment_has_none(
    dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dags.parent / ".tidemark").mkdir()
    shape = json.dumps({"conn_type": "postgres", "host": "here", "password": "it's"})
    quoted = shape.replace("'", "'\"'\"'")
    (dags.parent / ".tidemark" / "env").write_text(
        f"# source this\nexport AIRFLOW_CONN_A='{quoted}'\n"
    )
    assert connection("a").host == "here"
    assert connection("a").password == "it's"
    monkeypatch.setenv("AIRFLOW_CONN_A", shape.replace("here", "there"))
    assert connection("a").host == "there"


def test_sparks_logs_stay_in_the_folder_of_the_local_stack(
    dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command line and by the local Airflow: failed drivers would fill /tmp."""
    folder = dags.parent / ".tidemark"
    folder.mkdir()
    (folder / "env").touch()
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "TIDEMARK_SPARK_LOGS"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("TIDEMARK_SPARK_LOGS")
    monkeypatch.setattr(sys, "path", [*sys.path])
    prepare_spark(Pipeline.load(dags / "orders.yaml"))
    assert os.environ.pop("TIDEMARK_SPARK_LOGS") == str(folder / "logs")
    airflow = LocalStack(folder, dags.parent).airflow
    assert airflow.environment()["TIDEMARK_SPARK_LOGS"] == str(folder / "logs")


def test_spark_starts_where_the_connection_says(
    dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"host": "spark://head", "port": 7077}')
    monkeypatch.setenv("PYTHONPATH", "/before")
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    prepare_spark(Pipeline.load(dags / "orders.yaml"))
    assert os.environ.pop("PYSPARK_SUBMIT_ARGS") == "--master spark://head:7077 pyspark-shell"
    assert os.environ["PYTHONPATH"] == "/before"  # no code of the project's runs
    with (dags / "orders.yaml").open("a") as file:
        file.write("transform: jobs.orders:transform\n")
    prepare_spark(Pipeline.load(dags / "orders.yaml"))
    assert os.environ.pop("PYSPARK_SUBMIT_ARGS") == "--master spark://head:7077 pyspark-shell"
    assert os.environ["PYTHONPATH"] == f"{dags}:/before"
    assert sys.path[0] == str(dags)


def test_transforms_are_found_from_any_folder(
    cli: CliRunner, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dags / "of_orders.py").write_text("def transform(rows):\n    return rows\n")
    with (dags / "orders.yaml").open("a") as file:
        file.write("transform: of_orders:transform\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir("/")
    told = cli.invoke(app, ["check", str(dags / "orders.yaml"), "--no-spark", "-o", "json"])
    states = {one["check"]: one["state"] for one in json.loads(told.stdout)["checks"]}
    assert states["transform"] == "ok"
    del sys.modules["of_orders"]


NOISY = """
import ctypes, subprocess, sys
print("a module", flush=True)
sys.__stdout__.write("its log")
subprocess.run(["echo", "a child"], check=True)
ctypes.CDLL(None).puts(b"a library")
transform = print
"""


def test_json_is_alone_on_stdout_whatever_a_transform_prints(dags: Path) -> None:
    """What a library in C has printed is written when the process ends."""
    (dags / "noisy.py").write_text(NOISY)
    file = dags / "orders.yaml"
    file.write_text(f"{file.read_text()}transform: noisy:transform\n")
    program = [sys.executable, "-m", "tidemark", "check", str(file), "--no-spark", "-o", "json"]
    told = subprocess.run(program, capture_output=True, text=True, check=False)
    found = json.loads(told.stdout)
    assert (told.returncode, found["region"]) == (1, "orders")
    for one in ("a module", "its log", "a child", "a library"):
        assert one in told.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode", "plain ünïcode"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_bytes_are_shown_as_text_and_never_fail() -> None:
    assert text_of(b"ok \xff") == r"ok \xff"
    assert text_of(None) is None


def test_a_time_is_shown_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("at",), [(datetime.fromisoformat("2026-01-31T23:30:00-02:00"),)])
    assert capsys.readouterr().out.split() == ["at", "2026-02-01", "01:30:00Z"]


def test_a_time_without_a_zone_is_not_called_utc(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("at",), [(datetime.fromisoformat("2026-01-31T23:30:00"),)])
    assert capsys.readouterr().out.split() == ["at", "2026-01-31", "23:30:00"]


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert cut("12345", 5) == "12345"
    assert cut("123456", 5) == "1234…"


@pytest.mark.parametrize(
    ("partitions", "shown"),
    [
        ([], ""),
        (["a[0]"], "a[0]"),
        (["a[10]", "a[9]", "a[2]", "a[0]", "a[1]"], "a[0-2,9-10]"),
        (["b-c.d[1]", "a[3]"], "a[3], b-c.d[1]"),
    ],
)
def test_partitions_are_told_in_runs(partitions: list[str], shown: str) -> None:
    assert brief(partitions) == shown


def test_json_has_only_its_own_types() -> None:
    value = {
        TopicPartition("t", 1): Attempt(1, 2, {ONLY: 3}),
        "when": datetime(2024, 1, 1, tzinfo=UTC),
        "bytes": b"\x00",
        "tuple": (None, True, 1.5),
    }
    assert json.loads(json.dumps(plain(value))) == {
        "t[1]": {"member": 1, "attempt": 2, "rows": {"": 3}},
        "when": "2024-01-01T00:00:00+00:00",
        "bytes": "AA==",
        "tuple": [None, True, 1.5],
    }


def test_numbers_that_json_lacks_are_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"rows": [{"a": nan, "b": (inf, -inf), "c": 0.5}]})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"rows": [{"a": "NaN", "b": ["Infinity", "-Infinity"], "c": 0.5}]}


@pytest.mark.parametrize(
    ("age", "case"),
    [
        ("36500d", "ConnectionNowhere"),
        ("36501d", "PurgeWithoutAge"),
        ("876001h", "PurgeWithoutAge"),
        ("999999d", "PurgeWithoutAge"),
    ],
)
def test_an_age_that_no_calendar_reaches_is_refused(
    cli: CliRunner, dags: Path, age: str, case: str
) -> None:
    command = ["dead-letters", "orders", "--purge", "--older-than", age, "-o", "json"]
    assert json.loads(cli.invoke(app, command).stdout)["error"]["case"] == case


@pytest.mark.parametrize("of_list", [("--limit", "5"), ("--raw",)])
@pytest.mark.parametrize("other", [("--export", "f"), ("--purge", "--older-than", "1d", "--apply")])
def test_what_bounds_the_list_bounds_neither_purge_nor_export(
    cli: CliRunner, dags: Path, of_list: tuple[str, ...], other: tuple[str, ...]
) -> None:
    told = cli.invoke(app, ["dead-letters", "orders", *other, *of_list, "-o", "json"])
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["case"]) == (2, "OptionsClash")
    assert error["fields"]["options"] == [of_list[0], other[0]]


@pytest.mark.parametrize(
    "command",
    [
        ("reset", "orders"),
        ("region", "drop", "orders"),
        ("withhold", "orders", "3"),
        ("mirror", "orders"),
        ("dead-letters", "orders"),
    ],
    ids=" ".join,
)
def test_an_interrupted_command_says_what_may_stand(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Its COMMIT may have come before the signal."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    module = command[0].replace("-", "_")
    monkeypatch.setattr(f"tidemark.cli.{module}.find_pipeline", interrupted)
    told = cli.invoke(app, [*command])
    assert (told.exit_code, told.stdout) == (130, "")
    assert told.stderr.startswith("INTERRUPTED: ")
    assert "before it was done" not in told.stderr
    assert told.stderr.count("INTERRUPTED") == 1


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_who_has_no_name_is_told_by_the_uid(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """As in a container that runs as any uid; Python 3.13 raises another error than before."""

    def nameless() -> str:
        raise error

    monkeypatch.setattr("getpass.getuser", nameless)
    assert whoami().startswith(f"uid {os.getuid()}@")


def test_migrate_prints_its_statements_without_a_server(cli: CliRunner) -> None:
    told = cli.invoke(app, ["migrate", "--sql", "-o", "json"])
    assert told.exit_code == 0
    assert "CREATE TABLE tidemark.regions" in json.loads(told.stdout)["sql"]


HIDDEN = """
import sys
from importlib.abc import MetaPathFinder
class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
from tidemark.cli.main import app
app({words})
"""


@pytest.mark.parametrize(
    ("words", "exits", "said"),
    [
        (["local", "--help"], 0, "install airflow-provider-tidemark[local]"),
        (["local", "status", "-o", "json"], 2, '"case": "MissingExtra"'),
        (["local", "up"], 2, "install airflow-provider-tidemark[local]"),
        (["--help"], 0, "verify"),
        (["run", "--help"], 0, "PIPELINE"),
    ],
    ids=str,
)
def test_without_an_extra_help_is_told_and_a_command_names_the_extra(
    tmp_path: Path, words: list[str], exits: int, said: str
) -> None:
    hidden = {"tidemark_local", "pooch", "filelock", "httpx", "pyspark", "airflow"}
    program = HIDDEN.format(hidden=hidden, words=words)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == exits, done.stderr
    assert said in done.stdout + done.stderr
