"""What the documents say of Airflow: their examples, and the table of retries and time-outs."""

import ast

import pytest
from tests.support.documents import OPERATING, Block, in_language, table_rows


@pytest.mark.parametrize("block", in_language("python"), ids=str)
def test_every_python_example_compiles_and_imports_what_exists(block: Block) -> None:
    import tidemark.airflow

    imports = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.ImportFrom)]
    asked = {a.name for node in imports if node.module == "tidemark.airflow" for a in node.names}
    assert asked - set(tidemark.airflow.__all__) == set()


def test_retries_and_time_outs_of_the_dag_are_the_described_ones() -> None:
    from tidemark.airflow.manual import REPLAY_TIMEOUT, RESET_TIMEOUT
    from tidemark.airflow.step import DRAIN_TIMEOUT, RETRIES, STEP_TIMEOUT

    retries, pause = RETRIES["retries"], RETRIES["retry_delay"]
    step = f"{STEP_TIMEOUT.seconds // 60} min (1)"
    drain, reset, replay = (
        time.seconds // 3600 for time in (DRAIN_TIMEOUT, RESET_TIMEOUT, REPLAY_TIMEOUT)
    )
    rows = {row[0]: row[1:3] for row in table_rows(OPERATING, "task", "retries")}
    assert rows["open"] == rows["reset"] == [f"{retries}", step]
    assert rows["drain"] == [
        f"{retries}, the first after {pause.seconds} s",
        f"{drain} h, `drain_timeout`",
    ]
    assert rows["reset by hand"] == [f"{retries}", f"{reset} h, `reset_timeout`"]
    assert rows["replay by hand"] == [f"{retries}", f"{replay} h, `replay_timeout`"]
