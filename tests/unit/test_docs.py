"""The documents say what the code does: each claim that a machine can check is checked."""

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

import pytest
from scripts import configuration_docs
from scripts.configuration_facts import JSON_OF_TYPES, SAMPLES
from tests.faults import seeded
from tests.faults.seeded import Seed
from tests.support.documents import (
    ROOT,
    Block,
    anchors,
    blocks,
    commands,
    documents,
    links,
    make_targets,
    spans,
    table_rows,
)

from tidemark.decode import JsonDecoder, Reason
from tidemark.errors import by_code
from tidemark.local.airflow import SETTINGS
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import registered
from tidemark.staging import refused_records

OPERATING = ROOT / "docs" / "operating.md"
TESTING = ROOT / "docs" / "testing.md"
FOLDERS = ("dags", "jobs", "plugins", "sql", "scripts", "docs", "tests")
OF_THE_READER = {
    "dags/clicks.yaml", "dags/clicks.py", "jobs/clicks.py", "jobs/lines.py", "sql/clicks.sql",
    "tests/test_clicks.py",
}  # fmt: skip
"""Files that the pages let their reader write."""


def source(*patterns: str) -> str:
    """The text of all files that match."""
    return "\n".join(path.read_text() for p in patterns for path in sorted(ROOT.glob(p)))


def in_language(language: str) -> list[Block]:
    return [block for page in documents() for block in blocks(page) if block.language == language]


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: {target}"


def test_every_file_that_is_named_exists() -> None:
    named = {text for page in documents() for text in spans(page)} - OF_THE_READER
    paths = [text for text in named if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]+", text)]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_pages_that_the_code_points_at_exist() -> None:
    named = set(
        re.findall(
            r"docs/[\w-]+\.md", source("plugins/**/*.py", "dags/*.py", "dags/*.yaml", "Makefile")
        )
    )
    assert [page for page in named if not (ROOT / page).exists()] == []


def test_every_make_target_exists() -> None:
    exist = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in documents() for target in make_targets(page)}
    assert named - exist == set()
    assert {"demo", "test"} <= named


@pytest.mark.parametrize("text", sorted({text for page in documents() for text in commands(page)}))
def test_every_command_parses(text: str) -> None:
    import typer.main

    from tidemark.cli.main import app

    command = typer.main.get_command(app)
    words = shlex.split(text)[1:]
    context = command.make_context("tidemark", [], resilient_parsing=True)
    while words and hasattr(command, "get_command"):
        command = command.get_command(context, words.pop(0))
        assert command is not None, f"{text}: no such command"
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
    given, left, _ = command.make_parser(context).parse_args(args=list(words))
    missing = [p.name for p in command.params if p.required and given.get(p.name) is None]
    assert left == [], f"{text}: too many arguments"
    assert not words or missing == [], f"{text}: {missing} missing"


def test_every_error_is_described_with_its_exit_code() -> None:
    described = {row[0].strip("`"): int(row[1]) for row in table_rows(OPERATING, "code", "exit")}
    assert described == {code: kind.exit_code for code, kind in by_code().items()}


OF_OTHERS = ("TIDEMARK_", "SPARK_", "HADOOP_", "OTEL_", "OPENLINEAGE_", "NO_COLOR")
"""Variables, not errors."""


def test_every_error_that_is_named_exists() -> None:
    known = {row[0].strip("`") for row in table_rows(OPERATING, "code", "exit")}
    known |= {row[0].strip("`") for row in table_rows(OPERATING, "reason", "the record")}
    known |= vars(seeded).keys()
    named = {text for page in documents() for text in spans(page)}
    codes = {text for text in named if re.fullmatch(r"[A-Z]+(_[A-Z]+)+|FENCED|REFUSED", text)}
    assert {code for code in codes if not code.startswith(OF_OTHERS)} - known == set()


def test_every_reason_of_a_dead_letter_is_described() -> None:
    described = [row[0].strip("`") for row in table_rows(OPERATING, "reason", "the record")]
    assert described == [*map(str, Reason), refused_records.REASON]


def test_the_configuration_reference_is_what_the_code_says() -> None:
    written = configuration_docs.PAGE.read_text()
    assert written == configuration_docs.page(), (
        "run: .venv/bin/python -m scripts.configuration_docs --write"
    )


@pytest.mark.parametrize("name", JSON_OF_TYPES)
def test_every_example_of_a_type_is_read(name: str) -> None:
    decoder = JsonDecoder(arrow_schema({"f": SAMPLES.get(name, name)}))
    example, _ = JSON_OF_TYPES[name]
    decoded = decoder.decode([f'{{"f": {example}}}'.encode()])
    assert decoded.rejected == []
    assert decoded.rows.column(0)[0].is_valid


def test_what_is_said_to_be_refused_is_a_dead_letter() -> None:
    refused = {"int": ['"1"', "1.0"], "double": ['"1"'], "string": ["1"]}
    for name, values in refused.items():
        decoder = JsonDecoder(arrow_schema({"f": name}))
        decoded = decoder.decode([f'{{"f": {value}}}'.encode() for value in values])
        assert len(decoded.rejected) == len(values), name


@pytest.mark.parametrize("block", in_language("yaml"), ids=str)
def test_every_pipeline_file_loads(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(block.text)
    (tmp_path / "orders.pb").touch()  # an example names it
    pipeline = Pipeline.load(file, may_infer=True)
    assert (
        pipeline.decode.is_own
        or pipeline.decode.infers_any
        or registered(pipeline)
        or arrow_schema(pipeline.decode.declared)
    )


@pytest.mark.parametrize("block", in_language("python"), ids=str)
def test_every_python_example_compiles_and_imports_what_exists(block: Block) -> None:
    tree = ast.parse(block.text)
    public = ast.parse((ROOT / "plugins/tidemark/airflow/__init__.py").read_text())
    offered = {
        a.name for node in public.body if isinstance(node, ast.ImportFrom) for a in node.names
    }
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    asked = {a.name for node in imports if node.module == "tidemark.airflow" for a in node.names}
    assert asked - offered == set()


def test_the_tutorial_says_that_a_local_dag_is_not_paused() -> None:
    tutorial = (ROOT / "docs" / "first-pipeline.md").read_text()
    assert "In the local Airflow a new DAG is not paused" in tutorial
    assert SETTINGS["CORE__DAGS_ARE_PAUSED_AT_CREATION"] == "False"


def test_every_environment_variable_is_read_somewhere() -> None:
    code = source("plugins/**/*.py", "jobs/*.py", "tests/conftest.py")
    named = {
        name
        for page in documents()
        for name in re.findall(r"TIDEMARK_[A-Z_]+[A-Z]", page.read_text())
    }
    of_connections = {"TIDEMARK_KAFKA", "TIDEMARK_WAREHOUSE"}
    assert {name for name in named - of_connections if name not in code} == set()


def test_every_failpoint_is_described_and_every_described_one_exists() -> None:
    described = set(
        re.findall(
            r"`([a-z]+(?:\.[a-z]+)+)`",
            "\n".join(row[0] for row in table_rows(TESTING, "failpoint", "where")),
        )
    )
    assert described == set(_failpoints())


def test_transactions_that_have_failpoints_are_the_described_ones() -> None:
    [sentence] = re.findall(r"four more, by its name\.(.*?):\n", TESTING.read_text(), re.DOTALL)
    code = source("plugins/tidemark/**/*.py")
    named = re.findall(r'(?:transaction\([^,()]+|deciding\([^()]+), "([a-z]+)"', code)
    expected = {*named, "open", "reset"}
    assert set(re.findall(r"`([a-z]+)`", sentence)) == expected


def _failpoints() -> Iterator[str]:
    """The names in the code; those of transactions by the example of `publish`."""
    code = source("plugins/tidemark/**/*.py")
    yield from re.findall(r'failpoints\.hit\("([a-z.]+)"\)', code)
    for place in re.findall(r'failpoints\.hit\(f"\{(?:request\.)?name\}\.([a-z.]+)"\)', code):
        names = ("publish",) if place.startswith("commit.") else ("open", "reset")
        yield from (f"{name}.{place}" for name in names)


def test_every_table_of_the_ledger_is_described() -> None:
    page = ROOT / "docs" / "how-it-works.md"
    described = {row[0].strip("`") for row in table_rows(page, "table", "one row is")}
    migrations = source("sql/migrations/*.sql")
    assert described == set(re.findall(r"CREATE (?:TABLE|VIEW) tidemark\.(\w+)", migrations))


GUARD_ROWS = table_rows(ROOT / "docs" / "how-it-works.md", "id", "guard")


def test_guards_are_numbered_in_order() -> None:
    assert [row[0] for row in GUARD_ROWS] == [f"G{n}" for n in range(1, len(GUARD_ROWS) + 1)]


@pytest.mark.parametrize("row", GUARD_ROWS, ids=[row[0] for row in GUARD_ROWS])
def test_each_guard_names_tests_that_exist(row: list[str]) -> None:
    named = re.findall(r"`([^`]+)`", row[3])
    assert named
    for text in named:
        path, _, name = text.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        assert [node for node in tree.body if is_test(node) and node.name == name], text


def test_each_seeded_bug_stands_beside_exactly_one_guard() -> None:
    named = [name for row in GUARD_ROWS for name in re.findall(r"`([^`]+)`", row[4])]
    seeds = [name for name, value in vars(seeded).items() if isinstance(value, Seed)]
    assert sorted(named) == sorted(seeds)


def test_the_steps_are_numbered_alike() -> None:
    """The page, the protocol's docstring and the diagram tell the same nine steps."""
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    numbers = [int(n) for n in re.findall(r"^(\d)\. \*\*", page, re.MULTILINE)]
    assert numbers == list(range(1, 10))
    in_diagram = [int(n) for n in re.findall(r": (\d) [a-z]", page)]
    assert all(first <= second for first, second in pairwise(in_diagram))


def test_retries_and_time_outs_of_the_dag_are_the_described_ones() -> None:
    code = source("plugins/tidemark/airflow/*.py")
    rows = {row[0]: row[1:3] for row in table_rows(OPERATING, "task", "retries")}
    [retries] = re.findall(r'"retries": (\d+)', code)
    [pause] = re.findall(r'"retry_delay": timedelta\(seconds=(\d+)\)', code)
    [step] = re.findall(r"STEP_TIMEOUT = timedelta\(minutes=(\d+)\)", code)
    [hours] = re.findall(r"DRAIN_TIMEOUT = timedelta\(hours=(\d+)\)", code)
    assert rows["open"] == [retries, f"{step} min"]
    assert rows["drain"] == [
        f"{retries}, the first after {pause} s",
        f"{hours} h, `drain_timeout`",
    ]
    [by_hand] = re.findall(r"RESET_TIMEOUT = timedelta\(hours=(\d+)\)", code)
    assert rows["reset"] == [retries, f"{step} min"]
    assert rows["reset by hand"] == [retries, f"{by_hand} h, `reset_timeout`"]
    [by_hand] = re.findall(r"REPLAY_TIMEOUT = timedelta\(hours=(\d+)\)", code)
    assert rows["replay by hand"] == [retries, f"{by_hand} h, `replay_timeout`"]
    tries = int(retries) + 1
    assert f"longer than about {tries * int(hours)} h** uses up" in OPERATING.read_text()


def test_the_readme_is_read_to_its_end() -> None:
    """It shows the result first, then how to have it."""
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 200
    assert text.index("docs/run.svg") < text.index("make demo") < text.index("tidemark init")


def test_places_for_real_output_are_delimited() -> None:
    for page, name in (
        ("docs/demo.md", "demo"),
        ("docs/testing.md", "test"),
        ("docs/performance.md", "bench"),
    ):
        text = (ROOT / page).read_text()
        assert text.count(f"<!-- {name}-output:start -->") == 1
        assert text.count(f"<!-- {name}-output:end -->") == 1


FEATURES = ROOT / "docs" / "features.md"
FEATURE_ROWS = table_rows(FEATURES, "#")


@pytest.mark.parametrize("row", FEATURE_ROWS, ids=[row[0] for row in FEATURE_ROWS])
def test_each_feature_names_tests_that_name_it(row: list[str]) -> None:
    name, _, tests = row
    paths = re.findall(r"`([^`]+)`", tests)
    assert paths
    for path in paths:
        tree = ast.parse((ROOT / path).read_text())
        docstrings = [ast.get_docstring(node) or "" for node in ast.walk(tree) if is_test(node)]
        found = [text for text in docstrings if re.search(rf"\b{name}[a-g]?\b", text)]
        assert found, f"no test of {path} says {name} in its docstring"


@pytest.mark.parametrize("row", FEATURE_ROWS, ids=[row[0] for row in FEATURE_ROWS])
def test_each_feature_is_shown_on_real_parts(row: list[str]) -> None:
    folders = set(re.findall(r"`tests/(\w+)/", row[2]))
    assert folders & {"integration", "contract", "dags", "faults"}


def is_test(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """A function that pytest collects."""
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def test_every_row_of_members_and_resets_is_there() -> None:
    wanted = {f"S{n}" for n in range(1, 35)} | {f"H{n}" for n in range(1, 22)}
    wanted |= {f"B{n}" for n in range(1, 23)}
    assert {row[0] for row in FEATURE_ROWS} == wanted
