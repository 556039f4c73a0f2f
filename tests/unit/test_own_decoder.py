"""B12: a decoder of the user's own, and what becomes of wrong answers."""

import re
import sys
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.support.documents import ROOT, blocks
from tests.support.own_decoders import Answers

from tidemark.decode import Decoding, Rejected
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import Endpoints
from tidemark.settings.errors import FieldNameUnfit
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.errors import OwnDecoderColumnsUnfit, OwnDecoderNotMade, OwnDecoderWrong
from tidemark.spark.record_decoder import GuardedDecoder, decoder_of
from tidemark.spark.specs import JobSpec, decoding_of, job_spec

OWN = "tests.support.own_decoders"
VALUES = [b"a b", b"bad", b"c d"]
COLUMNS = {"left": pa.string(), "right": pa.string()}


def rows(*texts: Any, **columns: pa.DataType) -> pa.RecordBatch:
    schema = pa.schema(list((columns or COLUMNS).items()))
    return pa.RecordBatch.from_pylist([dict.fromkeys(schema.names, text) for text in texts], schema)


def invalid_rows() -> pa.RecordBatch:
    offsets, data = pa.py_buffer(b"\0\0\0\0\xff\0\0\0\1\0\0\0"), pa.py_buffer(b"a")
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    return pa.RecordBatch.from_arrays([column, column], schema=pa.schema(list(COLUMNS.items())))


def test_a_class_by_its_name_is_given_its_options() -> None:
    """B12"""
    made = decoder_of(Decoding(f"{OWN}:Words", options={"separator": "-"}))
    decoded = made.decode([b"a-b", b"a b", None])
    assert decoded.rows.to_pylist() == [{"left": "a", "right": "b"}]
    assert decoded.kept.to_pylist() == [0]
    assert [(one.index, one.detail) for one in decoded.rejected] == [(1, "1 words"), (2, "1 words")]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"kept": pa.array([0], pa.int64())}, "returned 2 rows and named 1 values as kept"),
        ({"kept": pa.array([0, 3])}, "named 2 as rows and 1 as rejected"),
        ({"kept": pa.array([0, 0])}, "named 2 as rows and 1 as rejected"),
        ({"kept": pa.array([0, 1])}, "named 2 as rows and 1 as rejected"),
        ({"kept": pa.array([-1, 0])}, "named 2 as rows and 1 as rejected"),
        ({"kept": pa.array([2, 0])}, "another order"),
        ({"kept": pa.array([0, None])}, "else than whole numbers"),
        ({"kept": [0, True]}, "else than whole numbers"),
        ({"kept": None}, "raised: "),
        ({"rejected": []}, "named 2 as rows and 0 as rejected"),
        (
            {"rejected": [Rejected(1, "X", ""), Rejected(1, "X", "")]},  # type: ignore[arg-type]
            "named 2 as rows and 2 as rejected",
        ),
        ({"rejected": [1]}, "rejected by int"),
        (
            {"rejected": [Rejected(1, "no name", "")]},  # type: ignore[arg-type]
            "rejected for 'no name'",
        ),
        ({"rejected": None}, "raised: "),
        ({"rows": rows("a")}, "returned 1 rows and named 2 values as kept"),
        ({"rows": rows("a", "b", "c")}, "returned 3 rows and named 2 values as kept"),
        ({"rows": rows("a", "b", left=pa.string())}, "returned the columns"),
        (
            {"rows": rows(b"a", b"b", left=pa.binary(), right=pa.string())},
            "returned the columns",
        ),
        ({"rows": pa.table(rows("a", "b"))}, "returned rows as Table"),
        ({"rows": invalid_rows()}, "Arrow finds invalid"),
    ],
)
def test_a_wrong_answer_fails_the_job(changed: dict[str, Any], fault: str) -> None:
    """B12: counts, indices, columns and what is in them."""
    own = Answers(pa.schema([]), **changed)
    with pytest.raises(OwnDecoderWrong) as failed:
        GuardedDecoder(own, own.schema, "o:O").decode(VALUES)
    assert (failed.value.code, failed.value.decoder) == ("JOB_FAILED", "o:O")
    assert fault in failed.value.fault


def test_a_decoder_that_raises_or_says_nothing_fails_the_job() -> None:
    """B12"""
    with pytest.raises(OwnDecoderWrong) as raised:
        decoder_of(Decoding(f"{OWN}:Raises")).decode(VALUES)
    words = r"raised: KeyError: 'no such word' \(.*own_decoders\.py, line"
    assert re.match(words, raised.value.fault)
    with pytest.raises(OwnDecoderWrong) as other:
        decoder_of(Decoding(f"{OWN}:Silent")).decode(VALUES)
    assert other.value.fault == "returned NoneType in place of Decoded"


@pytest.mark.parametrize(
    ("format", "options", "cause"),
    [
        (f"{OWN}:Missing", {}, "AttributeError"),
        ("tests.support.nowhere:Words", {}, "ModuleNotFoundError"),
        (f"{OWN}:Words", {"colour": 1}, "TypeError"),
        (f"{OWN}:Columnless", {}, "AttributeError"),
    ],
)
def test_a_decoder_that_cannot_be_made_is_refused(
    format: str, options: dict[str, Any], cause: str
) -> None:
    """B12"""
    with pytest.raises(OwnDecoderNotMade) as refused:
        decoder_of(Decoding(format, options=options))
    assert (refused.value.decoder, refused.value.cause.split(":")[0]) == (format, cause)


def test_columns_that_cannot_be_are_refused() -> None:
    """B12"""
    with pytest.raises(OwnDecoderColumnsUnfit) as refused:
        decoder_of(Decoding(f"{OWN}:NeverNull"))
    assert refused.value.fault.startswith("its columns left are not nullable")
    with pytest.raises(FieldNameUnfit):
        decoder_of(Decoding(f"{OWN}:Reserved"))


def test_details_become_words_that_postgres_can_keep() -> None:
    """B12"""
    own = Answers(pa.schema([]), rejected=[Rejected(1, "ODD", "a\0b\ud800" + "x" * 900)])  # type: ignore[arg-type]
    [one] = GuardedDecoder(own, own.schema, "o:O").decode(VALUES).rejected
    assert one.detail.startswith("a\\0b\\ud800xxx")
    assert len(one.detail) == 300


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The document's pipeline file, whose decoder can be imported."""
    code, file = blocks(ROOT / "docs" / "formats-own.md")[:2]
    module = ModuleType("shop_lines")
    exec(code.text, vars(module))  # the document's own text
    monkeypatch.setitem(sys.modules, "jobs.lines", module)
    found: dict[str, Any] = yaml.safe_load(file.text)
    return found


def test_the_documented_decoder_reads_lines(documented: dict[str, Any]) -> None:
    """B12"""
    pipeline = Pipeline.model_validate(documented)
    made = decoder_of(decoding_of(pipeline.decode, {}))
    decoded = made.decode([b"ada,12", b"ada", b"ada,x", None, b"\xff,1"])
    assert decoded.rows.to_pylist() == [{"user": "ada", "seconds": 12}]
    assert [one.index for one in decoded.rejected] == [1, 2, 3, 4]


def test_its_name_and_options_are_kept_and_its_project_reaches_executors(
    documented: dict[str, Any],
) -> None:
    """B12: and nothing of it is kept for other formats."""
    pipeline = Pipeline.model_validate(documented)
    kept = fingerprint(pipeline)
    assert kept["decode.format"] == "jobs.lines:Lines"
    assert kept["decode.options.separator"] == '","'
    assert jobs_of(pipeline).project == pipeline.project
    plain = Pipeline.model_validate(documented | {"decode": {"schema": {"a": "int"}}})
    assert fingerprint(plain).keys() == kept.keys() - {"decode.options.separator"} | {
        "decode.schema.a"
    }
    assert jobs_of(plain).project is None


def jobs_of(pipeline: Pipeline) -> JobSpec:
    """What its jobs are made of, by connections that lead nowhere."""
    kafka = Connection("k", "kafka", extra={"bootstrap.servers": "nowhere:9092"})
    warehouse = Connection("w", "postgres", "nowhere", schema="w")
    known = {pipeline.kafka.connection: kafka, pipeline.warehouse: warehouse}
    return job_spec(pipeline, Endpoints.of(pipeline, known))
