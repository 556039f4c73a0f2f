"""Columns of any name: none is taken for what our own statements call something else."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.support.sent import sent_to
from tests.support.world import World

from tidemark.staging.column import BATCH_SEQ
from tidemark.verify.verify import verify

ROOMS = Path(__file__).parents[3] / "plugins" / "tidemark"
OWN = {BATCH_SEQ, "kafka_topic", "kafka_partition", "kafka_offset", "kafka_key", "kafka_tombstone"}
SYSTEM = {"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}
"""Postgres' own, which are refused."""
ODD = {"it's", "per%cent", "%s", "%(seq)s", "a b", "{}", "{key}", "1", ";", "--", "$1",
       "x" * 63, "ü" * 31}  # fmt: skip
"""Names that have to be quoted, and of 63 bytes."""


def statements() -> Iterator[str]:
    """Those that meet a user's columns."""
    for file in (*ROOMS.glob("staging/*.py"), *ROOMS.glob("verify/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("SQL"):
                yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))


NAMES = sorted({*re.findall("[a-z_]+", " ".join(statements()))} - OWN - SYSTEM | ODD)
"""Every word of them."""


@pytest.fixture
def region(world: World, topic: Callable[..., str]) -> World:
    """A region with a column of each name, which sends its rows."""
    world.settings |= {
        "decode": {"schema": dict.fromkeys(NAMES, "int"), "metadata": ["key", "tombstone"]},
        "output": {"topic": topic(partitions=1)},
    }
    return world


def values(number: int) -> dict[str, int]:
    return {name: number * 10_000 + place for place, name in enumerate(NAMES)}


def send(region: World, *numbers: int) -> None:
    """A record of each number, under its key."""
    producer = Producer({"bootstrap.servers": region.kafka})
    for number in numbers:
        key, value = str(number % 10), json.dumps(values(number))
        producer.produce(region.topic, value, key, partition=0)
    assert producer.flush(120) == 0


def sent(region: World) -> list[dict[str, Any]]:
    found = sent_to(region.kafka, region.settings["output"]["topic"])
    return [{name: json.loads(one.value or b"")[name] for name in NAMES} for one in found]


def test_rows_are_published_sent_set_aside_and_compared(region: World) -> None:
    """G101: whatever their columns are called."""
    assert {"o", "t", "staged", "difference", "l", "e", "r"} <= {*NAMES}
    region.settings["output"] |= {"key": NAMES}
    region.settings["target"] = {"on_refused": "dead_letter"}
    send(region, 1)
    region.run("first")
    region.sql('ALTER TABLE public.records ADD CHECK ("o" <> %s)', (values(2)["o"],))
    send(region, 2, 3)
    region.run("second")
    assert sent(region) == [values(1), values(3)]
    [(rows,)] = region.sql("SELECT refused_rows FROM tidemark.dead_letters")
    assert [{name: row.get(name) for name in NAMES[:3]} for row in rows] == [
        {name: values(2)[name] for name in NAMES[:3]}
    ]
    assert compared(region) == 0
    region.sql("DELETE FROM public.records WHERE kafka_offset = 0")
    assert compared(region) > 0


def test_keys_are_upserted_sent_compared_and_taken_back(region: World) -> None:
    """G101"""
    region.settings["target"] = {
        "mode": "upsert", "key": ["kafka_key"], "deleted": "kafka_tombstone",
    }  # fmt: skip
    send(region, 1, 2)
    region.run("first")
    send(region, 11)
    region.run("second")
    assert sent(region) == [values(1), values(2), values(11)]
    assert compared(region) == 0
    region.reset(to=1, overrides=["accept_resend"])
    assert region.sql('SELECT "o" FROM public.records ORDER BY 1') == [
        (values(number)["o"],) for number in (1, 2)
    ]


def compared(region: World) -> int:
    return verify(region.pipeline, region.connections, executor_of=region.executor_of).wrong
