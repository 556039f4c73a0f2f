"""One word for one thing, in code and SQL."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemark

LIBRARY = Path(tidemark.__file__).parent
SOURCES = [
    path
    for path in [*LIBRARY.rglob("*.py"), *(LIBRARY / "sql").rglob("*.sql")]
    if "local" not in path.parts
]

AVOIDED = {
    "AlterConsumerGroupOffsets": r"alter_consumer_group_offsets",
    "commit of a consumer": r"consumer\.commit\(|store_offsets\(",
    "pickle or eval of data": r"\bpickle\.loads\(|\beval\(|\bexec\(",
    "a decision by a wall clock": r"datetime\.now\(|time\.time\(",
}


@pytest.mark.parametrize("what", AVOIDED)
def test_what_is_never_done(what: str) -> None:
    found = [path.name for path in SOURCES if re.search(AVOIDED[what], path.read_text())]
    assert found == []


def test_plus_one_stands_in_one_function_at_the_kafka_edge() -> None:
    """An offset is always the next one to read."""
    plus_one = re.compile(r"offset[()]*\s*\+\s*1\b")
    found = [path.name for path in SOURCES if plus_one.search(path.read_text())]
    assert found == ["position.py"]


def test_no_statement_of_the_ledger_is_built_from_strings() -> None:
    for path in (LIBRARY / "ledger").rglob("*.py"):
        assert not re.search(r"execute\(\s*f[\"']", path.read_text()), path.name


def test_the_region_lock_does_not_block_references() -> None:
    text = (LIBRARY / "sql" / "queries" / "lock_region.sql").read_text()
    assert text.rstrip().endswith("FOR NO KEY UPDATE")


QUERIES = {path.stem for path in (LIBRARY / "sql" / "queries").iterdir()}
RUNNERS = {"query", "_run", "_one", "_number", "_rows", "_settled"}
"""Functions whose first argument names a query; those with an underscore hand it on."""

COMPOSED = {
    "staging/again.py": "the name of a staging table",
    "staging/appending.py": "the name of a staging table",
    "staging/count.py": "the target's name",
    "staging/leftover.py": "the names of target and batch_seq",
    "staging/move.py": "the names of target, staging tables and columns",
    "staging/outbox.py": "the names of target, its columns and a scratch table",
    "staging/output_rows.py": "the names of target and its columns",
    "staging/reads.py": "the name of a staging table",
    "staging/refused_places.py": "the names of staging tables",
    "staging/refused_records.py": "the names of staging tables",
    "staging/replay.py": "the name of a staging table",
    "staging/rewind.py": "the target's name",
    "staging/undo_sql.py": "the names of target, its columns and a scratch table",
    "staging/upsert.py": "the name of a scratch table",
    "staging/upsert_sql.py": "the names of target, staging tables and columns",
    "staging/upsert_write.py": "the names of target, its columns and a scratch table",
    "verify/multiset.py": "two statements that are compared",
    "verify/places.py": "the target's name",
    "verify/rows.py": "the names of target, scratch tables and columns",
    "verify/upserts.py": "the names of target, scratch tables and columns",
    "verify/whole.py": "the target's name",
}
"""Where statements stand in Python, and what their text is composed with."""

SERVERS = {"local/airflow.py", "local/postgres.py"}
"""They ask a server that is being set up, of databases other than the ledger's too."""

STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s")


def functions_and_queries(node: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Each call that runs a query: the function that it stands in, and the query's name."""
    if isinstance(node, ast.FunctionDef):
        function = node.name
    if isinstance(node, ast.Call) and function not in RUNNERS:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in RUNNERS:
            assert isinstance(node.args[0], ast.Constant), ast.unparse(node)
            yield function, str(node.args[0].value)
    for child in ast.iter_child_nodes(node):
        yield from functions_and_queries(child, function)


def statements(tree: ast.AST) -> Iterator[str]:
    """String literals that begin as a statement does; docstrings are none."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in prose and STATEMENT.match(text):
            yield text


def test_every_query_is_named_as_what_runs_it() -> None:
    """A function that runs several gives them its name and more: prune, prune_spans."""
    found = [
        pair
        for path in LIBRARY.rglob("*.py")
        if path.parent.name == "ledger" or "tidemark.postgres.queries" in path.read_text()
        for pair in functions_and_queries(ast.parse(path.read_text()))
    ]
    assert [
        (function, name)
        for function, name in found
        if not f"{name}_".startswith(f"{function.lstrip('_')}_")
    ] == []
    assert {name for _, name in found} == QUERIES


def test_constant_statements_stand_in_files() -> None:
    """In Python stand those alone that are composed with names known only when they run."""
    found = {
        str(path.relative_to(LIBRARY)): texts
        for path in LIBRARY.rglob("*.py")
        if (texts := list(statements(ast.parse(path.read_text()))))
    }
    assert found.keys() == COMPOSED.keys() | SERVERS
    constant = [text for path in COMPOSED for text in found[path] if "{" not in text]
    assert constant == []
