"""How Postgres answers the ledger's statements once a region has a past: by indexes."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from scripts.bench.ledger import TOPIC, fill
from sqlalchemy import Engine
from tests.support.databases import database_of

from tidemark.ledger.migrate import migrate
from tidemark.model.batch import ONLY
from tidemark.postgres.session import Cursor, queries, query
from tidemark.postgres.transaction import autocommit, connect
from tidemark_local.stack import LocalStack

REGION = "flights"
LARGE = {"spans", "contributions", "dead_letters", "batches", "batch_targets", "undo"}
QUERIES = sorted(queries())
WHOLE = {
    "broken_chains": "verify proves that all retained spans join: it has to read them",
    "drop_region": "everything of a region goes",
    "size_of": "a person asks for the numbers of a whole region, before it is dropped",
    "dead_letter_reasons": "a person named a reason that no decoder of ours gives",
    "retained_rows": "status adds up the rows of all retained checkpoints",
}
"""Statements that may scan a large table, and why."""

PARTITIONS, CHECKPOINTS = 20, 1000
HERE = {
    "region": REGION,
    "seq": CHECKPOINTS - 10,
    "to_seq": CHECKPOINTS - 10,
    "head_seq": CHECKPOINTS,
    "epoch": 15,
    "run_id": "15",
    "member": 15,
    "members": [15],
    "contribution": 15,
    "retain": 150,
    "oldest": 10,
    "step": 10,
    "last": 10,
    "limit": 10,
    "seen": 15,
    "topics": [TOPIC] * PARTITIONS,
    "partitions": [*range(PARTITIONS)],
    "topic_ids": ["id-1"] * PARTITIONS,
    **dict.fromkeys(
        ("starts", "ends", "offsets", "attempts", "records", "dead_letters", "bytes",
         "record_ends", "leader_epochs", "high_watermarks"),
        [1000] * PARTITIONS,
    ),
    "since": [None] * PARTITIONS,
    "stable": [1000] * PARTITIONS,
    "kept": [None] * PARTITIONS,
    "accepted": [False] * PARTITIONS,
    "asked_at": None,
    "discarded_seqs": [15],
    "regions": [REGION, "others"],
    "newest": 100,
    "targets": [ONLY],
    "tables": ["public.flights"],
}  # fmt: skip
OTHERS: dict[str, Any] = {
    **dict.fromkeys(("uuid", "opening", "resetting"), str(uuid4())),
    "overrides": ["text"],
    "remarks": ["text"],
    **dict.fromkeys(("group_id", "target"), "other"),
    **dict.fromkeys(("by_hand", "deletes", "updates"), True),
    "table": "tidemark.batches",
    "sized_by": "seconds",
    "fingerprint": "{}",
    "state": "closed",
    **dict.fromkeys(("schema", "name", "pattern", "view", "topic", "request_id"), "text"),
    "settings": ["lock_timeout"],
    "rights": ["SELECT"],
    **dict.fromkeys(("periods_since", "periods_until", "lateness")),
    "codes": ["text", None],
    "cases": ["text", None],
    "kinds": ["r"],
    "role": "pg_monitor",
    "values": ["1s"],
    "is_local": True,
    "is_proof": True,
    "rules": ["3"],
    **dict.fromkeys(("kind", "requested_by", "why"), "drop"),
    "details": "{}",
    **dict.fromkeys(("reasons", "until", "only_topic", "only_partition")),
}


SINGLE: dict[str, dict[str, Any]] = {
    "finish_reset": {"dead_letters": 1},
    "find_rows_tables": {"rows": "flights_1_rows"},
    "keep_key": {"forms": "{}"},
    "write_batch": {"offsets": 1},
    "write_contribution": {"rows": [1]},
    "write_made_into": {"oids": [None], "key_forms": ["{}"]},
    "write_moved": {
        "moved": '[{"target": "", "rows": 1, "refused_rows": 0, "deleted": 0, "superseded": 0}]'
    },
    "write_reset": {"dead_letters": 1},
    "newest_dead_letters": {"bytes": 100},
    "show_member": {"partitions": ["made_up[0]"]},
    "dead_letters": {"since": None},
    "spans_since": {"since": None},
    "export_dead_letters": {"since": None},
    "purgeable": {"since": None},
    "purge_dead_letters": {"since": None},
    "write_replay_dead_letters": {"since": None},
    "replayable": {"since": None},
    "unreplayable": {"since": None},
    "write_replay_batch": {"records": 1},
    "unsent": {"dead_letters": True},
    "publish_replay": {"dead_letters": 1, "kept": 1},
    "stored_records": {"partition": 1, "start": 1, "end": 9},
}
"""Parameters that are one value here and a list of them elsewhere."""


KEYS_CHANGED = """
INSERT INTO tidemark.undo (region, target, seq, key, before_seq, was_deleted, before)
SELECT %(region)s, '', b.seq, ARRAY['key ' || n], b.seq - 1, false, ARRAY['a row']
FROM generate_series(1, %(head_seq)s) AS b (seq), generate_series(1, 20) AS n
"""


class Values(dict[str, Any]):
    """Parameters of a statement: those of the region, and for what only is written a number."""

    def __missing__(self, name: str) -> Any:
        return OTHERS.get(name, 1)


@pytest.fixture(scope="module")
def ledger(stack: LocalStack) -> Iterator[Engine]:
    """Two regions with 1,000 checkpoints of 20 partitions; the spans lie by partition."""
    for parameters in database_of(stack.postgres):
        engine = connect(parameters)
        migrate(engine)
        with autocommit(engine) as cursor:
            for region in (REGION, "others"):
                fill(cursor, region, checkpoints=CHECKPOINTS, partitions=PARTITIONS, dead_letters=5)
                cursor.execute(KEYS_CHANGED, HERE | {"region": region})
            cursor.execute("ANALYZE")
        yield engine
        engine.dispose()


def scanned(cursor: Cursor, statement: str, values: Any) -> set[str]:
    """The tables that Postgres would read from end to end."""
    cursor.execute("EXPLAIN (FORMAT JSON) " + statement, values)
    found = cursor.fetchone()[0]  # type: ignore[index]
    plans = json.loads(found) if isinstance(found, str) else found
    return {
        node["Relation Name"] for node in nodes(plans[0]["Plan"]) if node["Node Type"] == "Seq Scan"
    }


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for one in plan.get("Plans", ()):
        yield from nodes(one)


@pytest.mark.parametrize("name", QUERIES)
def test_no_statement_scans_a_large_table(ledger: Engine, name: str) -> None:
    """S18: what a run or a rewind asks does not grow with the checkpoints that are retained."""
    with autocommit(ledger) as cursor:
        large = scanned(cursor, query(name), Values(HERE | SINGLE.get(name, {}))) & LARGE
    assert not large or name in WHOLE, large  # of WHOLE an index alone may do, by its statistics


def test_the_view_for_dashboards_scans_no_large_table(ledger: Engine) -> None:
    with autocommit(ledger) as cursor:
        assert not scanned(cursor, "TABLE tidemark.region_status", None) & LARGE


def test_whatever_a_deletion_must_look_for_has_an_index(ledger: Engine) -> None:
    """A foreign key without one scans its table for each row that it points at and that goes."""
    with autocommit(ledger) as cursor:
        cursor.execute("""
            SELECT c.conrelid::regclass::text, c.conname FROM pg_constraint c
            WHERE c.contype = 'f' AND c.connamespace = 'tidemark'::regnamespace
              AND c.confrelid <> 'tidemark.regions'::regclass  -- a region never goes
              AND NOT EXISTS (
                  SELECT FROM pg_index i WHERE i.indrelid = c.conrelid AND (i.indkey::int2[])[
                      0:cardinality(c.conkey) - 1] = c.conkey)
        """)
        assert cursor.fetchall() == []
