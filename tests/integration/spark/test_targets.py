"""Several targets of an Arrow transform, by real Spark; and the example of docs/targets.md."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.support.batches import Batches, Run
from tests.support.documents import ROOT, blocks

from tidemark.errors import InvalidSettings, TidemarkError
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.errors import (
    TransformReturnedOne,
    TransformReturnedOther,
    TransformReturnedOtherTargets,
)
from tidemark.spark.testing import assert_cuts_change_nothing
from tidemark.spark.transform import ArrowTransform

pytestmark = pytest.mark.spark

FILE, FUNCTION = blocks(ROOT / "docs" / "targets.md")[:2]
ODD, EVEN = "odd", "even"


def apart(rows: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """The odd numbers, and the even ones without their text."""
    import pyarrow.compute as pc

    is_odd = pc.equal(pc.bit_wise_and(rows["n"], 1), 1)
    return {ODD: rows.filter(is_odd), EVEN: rows.filter(pc.invert(is_odd)).drop_columns(["text"])}


def test_one_task_stages_the_rows_of_all_targets(run: Run, batches: Batches) -> None:
    """B8: each in its table, under the attempt that read the records; none read twice."""
    batch, winners = run(ArrowTransform(apart, (ODD, EVEN)))
    counted = Counter[str]()
    for winner in winners:
        counted.update(winner.rows)
    assert counted == {ODD: 6, EVEN: 6}
    for name, numbers in ((ODD, [1, 3, 5, 7, 9, 11]), (EVEN, [0, 2, 4, 6, 8, 10])):
        table = batch.staging.of_target(name).rows
        found = batches._all(table, "n, member, attempt")
        assert [n for n, *_ in found] == numbers
        assert {tuple(by) for _, *by in found} <= {one.key for one in winners}
    assert len(batches.reads(batch)) == 2


WANTED: Any = {"wanted": "pyarrow.RecordBatch"}
BOTH = (ODD, EVEN)


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "refusal"),
    [
        (lambda rows: rows, TransformReturnedOne(returned="RecordBatch", targets=BOTH, **WANTED)),
        (
            lambda rows: {ODD: rows},
            TransformReturnedOtherTargets(returned=(ODD,), targets=BOTH, **WANTED),
        ),
        (
            lambda rows: {ODD: rows, EVEN: rows, "more": rows},
            TransformReturnedOtherTargets(returned=(*BOTH, "more"), targets=BOTH, **WANTED),
        ),
        (
            lambda rows: {ODD: rows, EVEN: None},
            TransformReturnedOther(returned="NoneType", target=EVEN, **WANTED),
        ),
    ],
    ids=["no dict", "one of two", "one too many", "no batch"],
)
def test_what_is_no_batch_for_each_target_is_refused(
    run: Run, function: Callable[[pa.RecordBatch], Any], refusal: TidemarkError
) -> None:
    """B8: at the start, and of each batch."""
    with pytest.raises(type(refusal)) as at_start:
        run(ArrowTransform(function, BOTH))
    assert at_start.value.fields() == refusal.fields()

    def later(rows: pa.RecordBatch) -> Any:
        return function(rows) if rows.num_rows else {ODD: rows, EVEN: rows}

    with pytest.raises(InvalidSettings) as in_a_task:
        run(ArrowTransform(later, BOTH))
    assert str(in_a_task.value) == str(refusal)


def test_the_example_makes_an_order_and_its_lines() -> None:
    """B8: its file is valid, its columns are those of an empty batch, its cuts change nothing."""
    pipeline = Pipeline.model_validate(yaml.safe_load(FILE.text))
    known: dict[str, Any] = {}
    exec(FUNCTION.text, known)  # the document's own text
    place = [("kafka_topic", "t"), ("kafka_partition", 0), ("kafka_offset", 1)]
    given = pa.RecordBatch.from_pylist(
        [
            {"order_id": 7, "lines": [{"sku": "a", "quantity": 1}, {"sku": "b", "quantity": 2}]}
            | dict(place),
            {"order_id": 8, "lines": []} | dict(place),
            {"order_id": 9, "lines": None} | dict(place),
        ],
        schema=pa.schema(
            [
                *arrow_schema(pipeline.decode.declared),
                ("kafka_topic", pa.string()),
                ("kafka_partition", pa.int32()),
                ("kafka_offset", pa.int64()),
            ]
        ),
    )
    made = ArrowTransform(known["transform"], tuple(pipeline.all_targets))
    [parts] = made.rows([given], made.schemas(given.schema), "a batch")
    assert parts["orders"]["order_id"].to_pylist() == [7, 8, 9]
    lines = [(one["order_id"], one["sku"], one["quantity"]) for one in parts["lines"].to_pylist()]
    assert lines == [(7, "a", 1), (7, "b", 2)]
    assert_cuts_change_nothing(known["transform"], given)
