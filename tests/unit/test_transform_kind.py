"""B17: what a transform takes is told by its annotations, or by the pipeline file."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import TransformKind
from tidemark.spark.errors import TransformAnnotatedOtherwise, TransformAnnotatedTwice
from tidemark.spark.transform import ArrowTransform, kind_of, transform_of

if TYPE_CHECKING:
    import pyarrow as known_to_type_checkers_alone

ARROW, DATAFRAME = TransformKind.arrow, TransformKind.dataframe

HEAD = """
import pandas, pyarrow, pyspark.sql
from collections.abc import Iterator, Mapping
from pyarrow import RecordBatch as Batch
from pyspark.sql import DataFrame
"""


def defined(text: str, head: str = HEAD) -> Any:
    """The function f of a module with this text."""
    module = ModuleType("of_a_user")
    code = compile(head + dedent(text), "of_a_user.py", "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module.f


@pytest.mark.parametrize("head", [HEAD, f"from __future__ import annotations\n{HEAD}"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch: ...", ARROW),
        ("def f(rows: Batch): ...", ARROW),
        ("def f(rows) -> Batch: ...", ARROW),
        ("def f(rows: 'pyarrow.RecordBatch', more: DataFrame = None): ...", ARROW),
        ("class C:\n    def __call__(self, rows: Batch): ...\nf = C()", ARROW),
        ("def f(rows) -> dict[str, Batch]: ...", ARROW),
        ("def f(rows) -> Mapping[str, Batch]: ...", ARROW),
        ("def f(rows) -> 'dict[str, pyarrow.RecordBatch]': ...", ARROW),
        ("def f(rows) -> dict[str, DataFrame]: ...", DATAFRAME),
        ("def f(rows: DataFrame) -> DataFrame: ...", DATAFRAME),
        ("def f(rows: pyspark.sql.DataFrame): ...", DATAFRAME),
        ("def f(rows): ...", None),
        ("def f(rows: pandas.DataFrame): ...", None),
        ("def f(rows: Iterator[Batch]) -> Iterator[Batch]: ...", None),
        ("def f(): ...", None),
        ("f = print", None),
        ("f = 7", None),
    ],
)
def test_the_annotation_tells_else_the_setting(
    text: str, kind: TransformKind | None, head: str
) -> None:
    """B17."""
    function = defined(text, head)
    assert kind_of(function, "m:f", None) is (kind or DATAFRAME)
    for declared in TransformKind:
        if kind in (None, declared):
            assert kind_of(function, "m:f", declared) is declared
        else:
            with pytest.raises(TransformAnnotatedOtherwise) as refused:
                kind_of(function, "m:f", declared)
            assert (refused.value.declared, refused.value.annotated) == (declared, kind)


def test_a_name_that_only_type_checkers_know_is_read_as_text() -> None:
    """B17."""

    def plain(rows: known_to_type_checkers_alone.RecordBatch) -> Any: ...

    def mapped(rows: Any) -> dict[str, known_to_type_checkers_alone.RecordBatch]:
        raise NotImplementedError

    @functools.wraps(plain)
    def wrapped(*rows: object) -> object: ...

    assert [kind_of(one, "m:f", None) for one in (plain, wrapped, mapped)] == [ARROW] * 3
    assert kind_of(functools.partial(wrapped), "m:f", None) is ARROW


def test_annotations_that_contradict_each_other_are_refused() -> None:
    """B17."""
    function = defined("def f(rows: DataFrame) -> Batch: ...")
    for declared in (None, *TransformKind):
        with pytest.raises(TransformAnnotatedTwice):
            kind_of(function, "m:f", declared)


def test_the_pipeline_file_says_what_no_annotation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B17."""
    (tmp_path / "told_by_the_file.py").write_text("def f(rows):\n    return rows\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    pipeline = Pipeline.model_validate(
        {
            "region": "r",
            "kafka": {"connection": "k", "topics": ["t"]},
            "decode": {"schema": {"n": "int"}},
            "target": {"connection": "w", "table": "public.t"},
            "transform": "told_by_the_file:f",
            "transform_kind": "arrow",
        }
    )
    assert isinstance(transform_of(pipeline.named_transform), ArrowTransform)
    by_default = pipeline.model_copy(update={"transform_kind": None})
    assert not isinstance(transform_of(by_default.named_transform), ArrowTransform)
    assert pipeline.model_copy(update={"transform": None}).named_transform is None


def test_no_spark_is_imported_for_an_arrow_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """B17: `pyspark` costs a second of each command that would not need it."""
    import subprocess

    root = Path(__file__).resolve().parents[2]
    code = (
        "import sys; import tidemark.spark.transform, tidemark.spark.testing,"
        " tidemark.spark._direct, jobs.flights_arrow; assert 'pyspark' not in sys.modules"
    )
    environment = {"PYTHONPATH": f"{root}:{root / 'plugins'}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
