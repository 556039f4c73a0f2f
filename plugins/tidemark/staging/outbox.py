"""The outbox: what a batch of an upsert sends, kept until it is read back as sent.

The next batch may change a row, so rows can't be read from the target later. Publish keeps of each
key that it changed the row as it is then, or that the key is deleted.
"""

from collections.abc import Mapping, Sequence

from psycopg2 import sql

from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.output_json import json_object

_KEEP = sql.SQL("""
INSERT INTO tidemark.outbox (region, seq, target, number, key, value)
SELECT {region}, {seq}, {name},
       row_number() OVER (ORDER BY l.kafka_topic, l.kafka_partition, l.kafka_offset),
       {key}, CASE WHEN NOT l."tidemark deleted" THEN {value} END
FROM {last} AS l LEFT JOIN {target} AS t ON {match}
""")


def keep_statement(
    names: Mapping[str, sql.Composable], columns: Sequence[TableColumn], key: Sequence[str]
) -> sql.Composed:
    """Keep what the batch has changed; `names` are those of the upsert, `columns` the target's."""
    by_name = {column.name: column for column in columns}
    value = json_object("t", [column for column in columns if column.name != BATCH_SEQ])
    key_object = json_object("l", [by_name[name] for name in key])
    return _KEEP.format(**{**names, "key": key_object, "value": value})
