"""The example of docs/upserts.md: its file is valid, and its transform finds a tombstone's key."""

from typing import Any

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.documents import ROOT, blocks

from tidemark.model.batch import ONLY
from tidemark.settings.pipeline import Pipeline

FILE, FUNCTION = blocks(ROOT / "docs" / "upserts.md")[:2]


def test_the_example_makes_a_row_of_a_record_and_of_a_tombstone(spark: SparkSession) -> None:
    """B8."""
    upsert = Pipeline.model_validate(yaml.safe_load(FILE.text)).all_targets[ONLY].upsert
    assert upsert is not None
    known: dict[str, Any] = {"DataFrame": DataFrame, "F": F}
    exec(FUNCTION.text, known)  # the document's own text
    given = spark.createDataFrame(
        [(7, "paid", b"7", False), (None, None, b"8", True)],
        "order_id bigint, status string, kafka_key binary, kafka_tombstone boolean",
    )
    made = known["transform"](given)
    assert [tuple(row) for row in made.collect()] == [(7, "paid", False), (8, None, True)]
    assert {*upsert.key, upsert.deleted} <= set(made.columns)
