"""B11: the files of docs/first-pipeline.md fit each other; test_tutorial types its commands."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.documents import ROOT, blocks

from tidemark.cli.init import write_all
from tidemark.cli.new_pipeline import NewPipeline
from tidemark.cli.proposal import proposal
from tidemark.settings.sections import TransformKind
from tidemark.testing import ddl_faults

PAGE = blocks(ROOT / "docs" / "first-pipeline.md")
DRAFT = {
    "region": "clicks",
    "kafka": {"connection": "tidemark_kafka", "topics": ["clicks"], "start": "beginning"},
    "target": {"connection": "tidemark_warehouse", "table": "public.clicks"},
}
VISIT = {"user": "ada", "page": "/1", "at": "2024-05-01T12:00:00Z", "ms": 1}


def of_the_page(language: str) -> list[str]:
    return [block.text for block in PAGE if block.language == language]


@pytest.mark.usefixtures("ddl_postgres")
def test_the_pages_transform_table_and_test_fit_what_init_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B11"""
    new = NewPipeline(tmp_path, DRAFT, TransformKind.arrow)
    values = [{"value": json.dumps(VISIT).encode(), "kafka_headers": None}]
    write_all(new.texts(proposal(values, None)))
    written = yaml.safe_load(new.file.read_text())
    assert [written] == [yaml.safe_load(text) for text in of_the_page("yaml")]
    transform, test = of_the_page("python")
    [table] = of_the_page("sql")
    # A module's name for this test alone: `jobs` may be another project's by now.
    (tmp_path / "dags" / "job_of_the_page.py").write_text(transform)
    new.file.write_text(new.file.read_text().replace("jobs.clicks:", "job_of_the_page:"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "dags"), *sys.path])
    assert any(
        '"day": the table lacks it' in one for one in ddl_faults(new.file, new.ddl.read_text())
    )
    assert ddl_faults(new.file, table) == []
    names: dict[str, Any] = {"__file__": str(new.test), "__name__": "of_the_page"}
    before, _, _ = new.test.read_text().partition("def test_a_record_becomes_a_row")
    exec(before + test, names)
    names["test_a_long_visit_has_its_day"]()
