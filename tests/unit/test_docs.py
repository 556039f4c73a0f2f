"""What the documents say, where the code can tell whether it is so."""

import re
import shlex
from pathlib import Path

import pytest
from scripts.docs import guards
from scripts.docs.generated import MADE
from scripts.docs.guards import named, written_at, written_in
from tests.faults import seeded
from tests.faults.seeded import Seed
from tests.support.documents import (
    ROOT,
    Block,
    anchors,
    commands,
    documents,
    in_language,
    links,
    make_targets,
    spans,
    table_rows,
)

from tidemark.decode import JsonDecoder, Reason
from tidemark.errors import by_code
from tidemark.settings.errors import ALLOWED
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import registered
from tidemark.staging import refused
from tidemark.staging.columns import columns_of

FOLDERS = ("dags", "jobs", "plugins", "tools", "sql", "scripts", "docs", "tests")
OF_THE_READER = {
    "dags/clicks.yaml", "dags/clicks.py", "jobs/clicks.py", "jobs/lines.py", "sql/clicks.sql",
    "tests/test_clicks.py",
}  # fmt: skip
"""Files that the pages let their reader write."""


@pytest.mark.parametrize("name", MADE)
def test_what_is_written_from_the_code_is_what_the_code_says(name: str) -> None:
    """Of guards: in `test`, whoever takes one out is told by `make test`."""
    text = (ROOT / name).read_text()
    assert text == MADE[name](text), "run: make generated"


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: {target}"


def test_no_page_installs_the_other_program_of_this_name() -> None:
    """`tidemark` of the package index is somebody else's."""
    other = re.compile(r"install\s+(?:-\S+\s+)*[`'\"]*tidemark(?![\w-])")
    assert other.search("pip install -U 'tidemark[otel]'")
    assert [page.name for page in documents() if other.search(page.read_text())] == []


def test_every_file_that_is_named_exists() -> None:
    """But for the page of features, whose names are short: `file_of` finds each."""
    pages = [page for page in documents() if page.name != "features.md"]
    found = {text for page in pages for text in spans(page)} - OF_THE_READER
    paths = [text for text in found if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]+", text)]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_make_target_exists() -> None:
    exist = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {target for page in documents() for target in make_targets(page)}
    assert asked - exist == set()
    assert {"demo", "test"} <= asked


@pytest.mark.parametrize("text", sorted({text for page in documents() for text in commands(page)}))
def test_every_command_parses(text: str) -> None:
    import typer.main

    from tidemark.cli.main import app

    command = typer.main.get_command(app)
    words = shlex.split(text)[1:]
    context = command.make_context("tidemark", [], resilient_parsing=True)
    while words and hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    given, left, _ = command.make_parser(context).parse_args(args=list(words))
    missing = [p.name for p in command.params if p.required and given.get(p.name) is None]
    assert left == [], f"{text}: too many arguments"
    assert not words or missing == [], f"{text}: {missing} missing"


OF_OTHERS = ("TIDEMARK_", "SPARK_", "HADOOP_", "OTEL_", "OPENLINEAGE_", "NO_COLOR")
"""Variables, not errors."""


def test_every_error_that_is_named_exists() -> None:
    reasons = {*map(str, Reason), refused.REASON}
    found = {text for page in documents() for text in spans(page)}
    codes = {text for text in found if re.fullmatch(r"[A-Z]+(_[A-Z]+)+|FENCED|REFUSED", text)}
    known = by_code().keys() | reasons | vars(seeded).keys()
    assert {code for code in codes if not code.startswith(OF_OTHERS)} - known == set()


def test_every_reason_of_a_dead_letter_is_described() -> None:
    described = [
        row[0].strip("`")
        for row in table_rows(ROOT / "docs" / "dead-letters.md", "reason", "the record")
    ]
    assert described == [*map(str, Reason), refused.REASON]


TYPES = table_rows(ROOT / "docs" / "configuration.md", "type", "JSON that it reads")


def test_every_type_of_a_field_is_described() -> None:
    assert [row[0].strip("`") for row in TYPES] == ALLOWED.split(", ")


@pytest.mark.parametrize("row", TYPES, ids=[row[0] for row in TYPES])
def test_every_example_of_a_type_is_read_and_has_the_column_that_is_told(row: list[str]) -> None:
    name, _, example, column = (cell.strip("`") for cell in row)
    for form, sample in (("p,s", "10,2"), ("<type>", "<int>"), ("<name:type,...>", "<a:int>")):
        name, column = name.replace(form, sample), column.replace(form, sample)
    schema = arrow_schema({"f": name})
    decoded = JsonDecoder(schema).decode([f'{{"f": {example}}}'.encode()])
    assert decoded.rejected == []
    assert decoded.rows.column(0)[0].is_valid
    assert columns_of(schema)[0].postgres_type == column.replace("type[]", "integer[]")


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


GUARDS = table_rows(guards.PAGE, "id", "guard")


def test_guards_are_numbered_in_order() -> None:
    assert [row[0] for row in GUARDS] == [f"G{n}" for n in range(1, len(GUARDS) + 1)]


def test_each_guard_names_tests_that_exist() -> None:
    for row in GUARDS:
        assert named(row[3]), row[0]
        assert all(written_at(text) for text in named(row[3]))


def test_each_row_of_security_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    rows = re.findall(r"^\| S(\d\d) \|", text, re.MULTILINE)
    assert rows == [f"{number:02}" for number in range(1, 27)]
    tests = re.findall(r"`(tests/\S+::\w+)`", text)
    assert len({written_at(one).name for one in tests}) > 40
    assert all((ROOT / one).is_file() for one in re.findall(r"`(tests/[^`:]+)`", text))


def test_each_seeded_bug_stands_beside_exactly_one_guard_and_is_planted() -> None:
    seeds = sorted(name for name, value in vars(seeded).items() if isinstance(value, Seed))
    assert sorted(seed for row in GUARDS for seed in named(row[5])) == seeds
    planted = {seed for test in written_in(guards.SEEDED).values() for seed in test.seeds}
    assert planted == set(seeds)


FEATURES = table_rows(ROOT / "docs" / "features.md", "#")
TESTS = ROOT / "tests"


def file_of(name: str) -> Path:
    """The file that the page of features names, below tests or tests/integration."""
    [found] = [
        path
        for folder in (TESTS, TESTS / "integration")
        if (path := folder / f"{name}.py").exists()
    ]
    return found


def test_each_feature_has_an_id_of_its_own() -> None:
    names = [row[0] for row in FEATURES]
    assert len(names) == len({*names})


@pytest.mark.parametrize("row", FEATURES, ids=[row[0] for row in FEATURES])
def test_each_feature_is_shown_on_real_parts_by_tests_that_name_it(row: list[str]) -> None:
    """Each file that it names has such a test, and `make test` runs one of them.

    Of a feature with several rows, B12a and B12b, a test names the row or the feature.
    """
    name, _, tests = row
    says = re.compile(rf"\b{name.rstrip('abcdefg')}[a-g]?\b")
    files = [file_of(one) for one in named(tests)]
    shown = [
        [test for test in written_in(path).values() if says.search(test.docstring)]
        for path in files
    ]
    assert [path for path, found in zip(files, shown, strict=True) if not found] == []
    assert not all(test.is_long for found in shown for test in found)
    folders = {path.relative_to(TESTS).parts[0] for path in files}
    assert folders & {"integration", "contract", "dags", "faults"}
