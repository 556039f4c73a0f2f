"""B17: the guards of an Arrow transform, which need no Spark, and the helper for users' tests."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidemark.errors import TidemarkError
from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.errors import ReadsLost, SpansNotReadToTheEnd
from tidemark.model.incomplete_read import refuse_unread
from tidemark.model.offsets import Span
from tidemark.spark import _direct
from tidemark.spark._direct import Direct, Done, refuse_lost_reads, refuse_untransformed
from tidemark.spark.errors import (
    RowsNotTransformed,
    TransformColumnsVary,
    TransformRaised,
    TransformRaisedForNow,
    TransformReturnedOther,
)
from tidemark.spark.testing import assert_cuts_change_nothing
from tidemark.spark.transform import ArrowTransform

Function = Callable[[pa.RecordBatch], Any]


def batch(*numbers: int | None) -> pa.RecordBatch:
    """Rows of one column."""
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], ["n"])


GIVEN = batch().schema


def placed(*numbers: int) -> pa.RecordBatch:
    """The same of a record each, with its coordinates."""
    places = [("t", 0, number) for number in numbers]
    columns = [pa.array(values, kind) for values, kind in zip(
        [*zip(*places, strict=True)] or [(), (), ()], (pa.string(), pa.int32(), pa.int64()),
        strict=True)]  # fmt: skip
    names = ["n", "kafka_topic", "kafka_partition", "kafka_offset"]
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), *columns], names)


def rows(function: Function, *batches: pa.RecordBatch) -> list[pa.RecordBatch]:
    """What a task makes of batches."""
    transform = ArrowTransform(function)
    made = transform.rows(batches, transform.schemas(GIVEN), "batch 3")
    return [one[ONLY] for one in made]


def only_odd(given: pa.RecordBatch) -> pa.RecordBatch:
    return given.filter(pc.equal(pc.bit_wise_and(given["n"], 1), 1))


def each_twice(given: pa.RecordBatch) -> pa.RecordBatch:
    return given.take(
        pa.array([place for place in range(given.num_rows) for _ in (1, 2)]).cast("int64")
    )


@pytest.mark.parametrize(
    ("function", "made"),
    [
        (lambda given: given, [[1, 2], [3]]),
        (only_odd, [[1], [3]]),
        (each_twice, [[1, 1, 2, 2], [3, 3]]),
        (lambda given: given.slice(0, 0), [[], []]),
    ],
)
def test_fewer_rows_none_and_more_are_fine(function: Function, made: list[list[int]]) -> None:
    """B17."""
    assert [one["n"].to_pylist() for one in rows(function, batch(1, 2), batch(3))] == made


@pytest.mark.parametrize(
    ("returned", "remedy"),
    [
        (None, "; is a return missing?"),
        ([1], ""),
        (pa.table(batch(1)), "; of a table make a batch by pyarrow.RecordBatch.from_arrays("),
    ],
)
def test_what_is_no_record_batch_is_refused(returned: object, remedy: str) -> None:
    """B17: at the start, and of each batch."""
    for function in (lambda _: returned, lambda given: returned if given.num_rows else given):
        with pytest.raises(TransformReturnedOther) as refused:
            rows(function, batch(1))
        assert refused.value.returned == type(returned).__name__
        assert refused.value.wanted == "pyarrow.RecordBatch"
        assert f"must return a pyarrow.RecordBatch{remedy}" in str(refused.value)


def test_the_remedy_for_a_table_makes_the_same_batch() -> None:
    """B17: also of one without rows or without chunks, which `to_batches()[0]` does not."""
    for table in (pa.table(batch(1, None)), GIVEN.empty_table(), pa.table(batch())):
        columns = [column.combine_chunks() for column in table.columns]
        made = pa.RecordBatch.from_arrays(columns, schema=table.schema)
        assert pa.table(made) == table


def by_first(given: pa.RecordBatch) -> pa.RecordBatch:
    name = f"of_{given['n'][0]}" if given.num_rows else "of_nothing"
    return given.rename_columns([name])


@pytest.mark.parametrize(
    ("function", "found", "at_start"),
    [
        (by_first, "of_7 int64", "of_nothing int64"),
        (
            lambda given: given.cast(pa.schema([pa.field("n", "int64", not bool(given.num_rows))])),
            "n int64 not null",
            "n int64",
        ),
        (
            lambda given: given.cast(pa.schema([("n", "int64" if given.num_rows else "int32")])),
            "n int64",
            "n int32",
        ),
    ],
)
def test_columns_that_depend_on_the_data_are_refused(
    function: Function, found: str, at_start: str
) -> None:
    """B17."""
    with pytest.raises(TransformColumnsVary) as refused:
        rows(function, batch(7))
    assert (refused.value.what, refused.value.target) == ("batch 3", ONLY)
    assert (refused.value.found, refused.value.at_start) == ((found,), (at_start,))


def fails(given: pa.RecordBatch) -> pa.RecordBatch:
    if given.num_rows:
        raise KeyError("no such\nairport")
    return given


def needs_a_row(given: pa.RecordBatch) -> pa.RecordBatch:
    return given.append_column("first", pa.array([given["n"][0].as_py()]))


def asks(given: pa.RecordBatch) -> pa.RecordBatch:
    raise ConnectionRefusedError("the service of airports")


@pytest.mark.parametrize(
    ("function", "kind", "cause", "with_empty"),
    [
        (fails, TransformRaised, "KeyError", False),
        (needs_a_row, TransformRaised, "IndexError", True),
        (asks, TransformRaisedForNow, "ConnectionRefusedError", True),
        (lambda given: pc.add(given, given), TransformRaised, "pyarrow.lib.ArrowTypeError", True),
    ],
)
def test_what_it_raises_is_told_with_the_line(
    function: Function,
    kind: type[TidemarkError],
    cause: str,
    with_empty: bool,
) -> None:
    """B17: a retry helps only where the machine or the network failed."""
    with pytest.raises(kind) as caught:
        rows(function, batch(1))
    told = caught.value.fields()
    assert told["with_empty"] is with_empty
    place = rf"{cause}: .* \(.*{Path(__file__).name}, line \d+, in {function.__name__}\)"
    assert re.fullmatch(place, str(told["cause"]))  # also: in one line


SPANS = Span("t", 0, 0, 9), Span("t", 1, 0, 9)
BATCH = Batch("r", 1, 3, ())
READ = {("t", 0, 4): 5, ("t", 1, 4): 0, ("t", 0, 3): 2}


def done(taken: int, attempt: int = 4) -> Done:
    return Done(SPANS, Attempt(1, attempt, {ONLY: 99}), taken)


def test_each_task_must_transform_what_it_read() -> None:
    """B17: the reads of the same attempt count, and there must be one for each span."""
    refuse_untransformed("batch 3", [done(5)], READ)
    for one in (done(4), done(6), done(2, attempt=3)):
        with pytest.raises(RowsNotTransformed) as caught:
            refuse_untransformed("batch 3", [done(5), one], READ)
        assert (caught.value.spans, caught.value.given) == (SPANS, one.taken)


def test_what_a_task_has_read_and_is_not_recorded_was_lost() -> None:
    """A task records its reads before it returns: no transform takes them back."""
    refuse_lost_reads(BATCH, [done(5)], READ)
    with pytest.raises(ReadsLost) as lost:
        refuse_lost_reads(BATCH, [done(5)], {("t", 0, 4): 5, ("t", 1, 3): 0})
    assert lost.value.spans == SPANS[1:]


@pytest.mark.parametrize(
    ("transform", "is_staged", "error"),
    [
        ("filters", True, SpansNotReadToTheEnd),
        ("filters", False, ReadsLost),
        (None, True, ReadsLost),
        (None, False, ReadsLost),
    ],
)
def test_a_span_without_a_read_is_a_transforms_fault_only_beside_the_jobs_rows(
    transform: str | None, is_staged: bool, error: type[TidemarkError]
) -> None:
    """G179: a span may have no rows, which are all there then."""
    with pytest.raises(error) as unread:
        refuse_unread(BATCH, SPANS, [], transform, is_staged=is_staged)
    assert unread.value.fields()["spans"] == [str(span) for span in SPANS]


def test_a_block_that_was_not_dealt_with_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """B17: a loop over the blocks that ends early is noticed, with an Arrow transform or none."""

    def read(*_: object) -> Iterator[pa.RecordBatch]:
        yield from (placed(1, 2), placed(3))

    def stage(_: object, batches: Any, attempt: int) -> Attempt:
        return Attempt(1, attempt, {ONLY: next(iter(batches))[ONLY].num_rows})

    monkeypatch.setattr(_direct, "read", read)
    monkeypatch.setattr(_direct, "stage", stage)
    given = placed().schema
    spec: Any = type("Spec", (), {"schema": given, "schemas": {ONLY: given}})
    for transform in (ArrowTransform(only_odd), None):
        task = Direct(spec, spec, given, transform, "batch 3")
        assert task.run(SPANS, 4).taken == 0
    monkeypatch.setattr(_direct, "stage", lambda _, batches, attempt: list(batches))
    assert task.run(SPANS, 4).taken == 3


@pytest.mark.parametrize(
    "function", [only_odd, each_twice, lambda given: given.sort_by([("n", "descending")])]
)
def test_the_helper_accepts_what_looks_at_one_row_at_a_time(function: Function) -> None:
    """B17."""
    assert_cuts_change_nothing(function, batch(3, 1, None, 2, 1))
    assert_cuts_change_nothing(function, batch())


def running_total(given: pa.RecordBatch) -> pa.RecordBatch:
    return given.append_column("total", pc.cumulative_sum(given["n"]))


def distinct(given: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.unique(given["n"])], ["n"])


def number_of_calls() -> Function:
    calls: list[int] = []

    def counting(given: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(1)
        return given.append_column("call", pa.array([len(calls)] * given.num_rows, pa.int64()))

    return counting


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (running_total, "in 4 pieces, cut before rows 1, 2, 3: the row {'n': 1, 'total': 4} is mi"),
        (distinct, "in 4 pieces, .* or is changed into {'n': 1}"),
        (number_of_calls(), "^again: the row {'n': 3, 'call': 2} .* into {'n': 3, 'call': 3}"),
        (by_first, "the whole: the columns of 4 rows are\nof_3: int64\nand of no rows\nof_nothing"),
    ],
)
def test_the_helper_names_the_first_difference(function: Function, says: str) -> None:
    """B17."""
    with pytest.raises(AssertionError, match=says):
        assert_cuts_change_nothing(function, batch(3, 1, 1, 2))


def test_the_helper_reads_every_value() -> None:
    """B17: NaN is not equal to itself, and Python's calendar ends with the year 9999."""
    far = pa.array([2**61, -(2**61), None], pa.timestamp("us", "UTC"))
    odd = pa.RecordBatch.from_arrays([pa.array([float("nan"), -0.0, None]), far], ["x", "far"])
    assert_cuts_change_nothing(lambda given: given, odd)
    with pytest.raises(AssertionError, match="'far': '"):
        assert_cuts_change_nothing(lambda given: given.slice(0, 1), odd)
