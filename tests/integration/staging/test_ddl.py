"""B11, B16: whether rows fit the tables that a DDL makes is what a run would say of them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml
from tests.support.waiting import until

from tidemark.testing import ddl_faults
from tidemark.testing.errors import DdlRefused, DdlWithoutTable

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.usefixtures("ddl_postgres")


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    file = tmp_path / "clicks.yaml"
    target = {"connection": "w", "table": "public.t"}
    settings = {
        "region": "clicks",
        "kafka": {"connection": "k", "topics": ["clicks"]},
        "decode": {"schema": {"id": "bigint", "page": "string", "at": "timestamp"}},
        "target": target,
    }
    file.write_text(yaml.safe_dump(settings))
    return file


def change(file: Path, **target: object) -> None:
    settings = yaml.safe_load(file.read_text())
    settings["target"] |= target
    file.write_text(yaml.safe_dump(settings))


PLACE = "kafka_topic text, kafka_partition int, kafka_offset bigint, batch_seq bigint"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id bigint, page text, at timestamptz", []),
        ("id numeric(20), page uuid, at timestamptz(6), more int", []),
        ("id int, page text, at timestamptz", ['"id": the table has integer, the tr']),
        ("id bigint, page varchar(3), at timestamptz", ['"page": the table has character v']),
        ("id bigint, page text", ['"at": the table lacks it']),
        ("id bigint, page text, at timestamptz, more int NOT NULL", ['"more": the transform\'s']),
        ("id bigint GENERATED ALWAYS AS IDENTITY, page text, at timestamptz",
         ['"id": the table numbers it itself']),
    ],
)  # fmt: skip
def test_each_difference_is_told_with_what_mends_it(
    clicks: Path, columns: str, said: list[str]
) -> None:
    """B11: by the rules of a run."""
    found = ddl_faults(clicks, f"CREATE TABLE public.t ({columns}, {PLACE})")
    assert len(found) == len(said)
    for fault, words in zip(found, said, strict=True):
        assert fault.startswith(f'"public"."t": {words}')
        assert "(ALTER TABLE " in fault


TABLE = f"CREATE TABLE public.t (id bigint, page text, at timestamptz, {PLACE})"


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE public.a (LIKE public.b); ALTER TABLE public.a RENAME TO t",
        "CREATE TABLE public.t () INHERITS (public.b)",
        "CREATE TABLE t AS TABLE public.b",
        "BEGIN; CREATE TABLE t (LIKE b); COMMIT",
        "SET search_path = ''; CREATE TABLE public.t (LIKE public.b)",
        "CREATE ROLE ddl_reader; CREATE TABLE t (LIKE b); GRANT SELECT ON t TO ddl_reader",
        "CREATE TABLE t (LIKE b) PARTITION BY LIST (page); CREATE TABLE c PARTITION OF t DEFAULT",
        "CREATE TABLE t (LIKE b, more int GENERATED ALWAYS AS (length(page)) STORED)",
        "CREATE TABLE t (LIKE b, EXCLUDE USING gist (int8range(id, id, '[]') WITH &&))",
    ],
)
def test_whatever_makes_the_table_is_judged(clicks: Path, ddl: str) -> None:
    """B11: twice, for nothing is left of the first time."""
    other = TABLE.replace("public.t", "public.b")
    for _ in range(2):
        assert ddl_faults(clicks, f"{other}; {ddl}") == []


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        (TABLE.replace("CREATE", "CREATE UNLOGGED"), "UNLOGGED"),
        (f"{TABLE}; CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING", "rule"),
        (f"{TABLE.replace('.t', '.b')}; CREATE VIEW t AS TABLE b", "view"),
        (TABLE.replace("page text", "page text CHECK (false), more int NOT NULL"), '"more": '),
    ],
)
def test_what_a_run_would_refuse_is_a_fault(clicks: Path, ddl: str, said: str) -> None:
    """B16"""
    [fault] = ddl_faults(clicks, ddl)
    assert said in fault


def test_a_type_of_ones_own_is_judged(clicks: Path) -> None:
    """B11: an enum parses a text, a composite type does not."""
    table = TABLE.replace("page text", "page mood")
    assert ddl_faults(clicks, f"CREATE TYPE mood AS ENUM ('a'); {table}") == []
    [fault] = ddl_faults(clicks, f"CREATE TYPE mood AS (a int); {table}")
    assert '"page": the table has public.mood' in fault


@pytest.mark.parametrize(
    ("ddl", "line"),
    [
        ("", None), ("no SQL (", 1), ("SELECT 1;\nCREATE TABLE t (a no_type)", 2),
        ("CREATE TABLE t (a int);\n\nCREATE TABLE t (b int)", None), ("\\connect x", 1),
        ("CREATE TABLE nowhere.t (a int)", 1), ("CREATE INDEX CONCURRENTLY i ON t (a)", None),
    ],
)  # fmt: skip
def test_what_postgres_refuses_is_told_with_its_line(
    clicks: Path, ddl: str, line: int | None
) -> None:
    """B16"""
    with pytest.raises(DdlRefused) as refused:
        ddl_faults(clicks, ddl)
    assert refused.value.line == line


@pytest.mark.parametrize("ddl", ["SELECT 1", 'CREATE TABLE "T" (a int)', "CREATE TABLE u (a int)"])
def test_a_target_without_a_table_is_named(clicks: Path, ddl: str) -> None:
    """B11, B16: names are those of SQL; a run would make the table, but here it is the subject."""
    with pytest.raises(DdlWithoutTable) as refused:
        ddl_faults(clicks, ddl)
    assert refused.value.targets == ('"public"."t"',)


def test_an_upsert_needs_its_key(clicks: Path) -> None:
    """B8, B11"""
    change(clicks, mode="upsert", key=["id"])
    table = f"CREATE TABLE public.t (id bigint {{}}, page text, at timestamptz, {PLACE})"
    [fault] = ddl_faults(clicks, table.format(""))
    assert "no unique index on exactly" in fault
    assert ddl_faults(clicks, table.format("PRIMARY KEY")) == []
    with_index = f"{table.format('')}; CREATE UNIQUE INDEX ON public.t (id)"
    assert ddl_faults(clicks, with_index) == []


def test_a_column_that_the_table_may_lack_is_no_fault(clicks: Path) -> None:
    """B20: as the pipeline file says it."""
    table = f"CREATE TABLE public.t (id bigint, at timestamptz, {PLACE})"
    assert len(ddl_faults(clicks, table)) == 1
    for consent in ("ignore", "add"):
        change(clicks, on_new_column=consent)
        assert ddl_faults(clicks, table) == []
    change(clicks, on_new_column="ignore")
    without = table.replace("kafka_topic text, ", "")
    assert ['"kafka_topic": the table lacks it' in one for one in ddl_faults(clicks, without)] == [
        True
    ]


def living_in(folder: str) -> list[str]:
    """Processes that work there, though it is deleted; one that waits to be reaped is none."""
    found = list[str]()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd().startswith(folder):
                found.append(process.name())
    return found


OWN = """
import os
import signal
import sys
import psutil
from tidemark_local.postgres import throwaway
from tidemark.testing import ddl_faults

file, ddl, end = sys.argv[1:]
assert ddl_faults(file, ddl) == ddl_faults(file, ddl) == []
server = throwaway()
print(psutil.Process(server.pid).cwd(), flush=True)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("end", "code"), [("by itself", 0), ("killed", -signal.SIGKILL)])
def test_the_postgres_that_judges_is_gone_with_the_process(
    clicks: Path, tmp_path: Path, end: str, code: int
) -> None:
    """B11: as a user's test has it; started once, and nothing of it is left."""
    folder = tmp_path / "own"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", OWN, clicks, TABLE, end],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == code
    data = done.stdout.strip()
    if end == "killed":  # else it is gone by now
        until(lambda: not any(folder.iterdir()))
    assert living_in(data) == []
    assert not Path(data).exists()
    assert [*folder.iterdir()] == []
