"""B20: columns that the target lacks are passed over where the pipeline says so, and no others."""

import pyarrow as pa
import pytest
from tests.support.flights_table import TARGET

from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor
from tidemark.staging.columns import columns_of
from tidemark.staging.target_writer import columns_to_skip

NAMES = ("id", "at", "gone", "note", "kafka_topic", "kafka_partition", "kafka_offset")
COLUMNS = columns_of(pa.schema([(name, pa.int64()) for name in NAMES]))
UPSERT = Upsert(("id",), "at", "gone")


def test_what_a_table_lacks(cursor: Cursor) -> None:
    """B20: but its key, its order, the mark of deletions, coordinates and what an output needs."""
    assert columns_to_skip(cursor, TARGET, COLUMNS, None) == frozenset()
    cursor.execute("CREATE TABLE public.flights (kafka_offset bigint, batch_seq bigint)")
    assert columns_to_skip(cursor, TARGET, COLUMNS, None) == {"id", "at", "gone", "note"}
    assert columns_to_skip(cursor, TARGET, COLUMNS, UPSERT) == {"note"}
    assert columns_to_skip(cursor, TARGET, COLUMNS, UPSERT, ["note"]) == frozenset()


@pytest.mark.parametrize("names", [("id", "note"), ("note",)])
def test_a_table_that_would_be_given_nothing_is_another_one(
    cursor: Cursor, names: tuple[str, ...]
) -> None:
    """B20: nothing is left out, so that it is refused for all that it lacks."""
    cursor.execute("CREATE TABLE public.flights (other bigint, batch_seq bigint)")
    columns = [column for column in COLUMNS if column.name in names]
    assert columns_to_skip(cursor, TARGET, columns, None) == frozenset()
