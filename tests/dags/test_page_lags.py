"""What waits for a region that never ran."""

from pathlib import Path
from typing import Any

import pytest

from tidemark.model.facts import Facts
from tidemark.model.offsets import TopicPartition
from tidemark.settings.pipeline import Pipeline

FLIGHTS = Path(__file__).resolve().parents[2] / "dags" / "flights.yaml"
ENDS = {TopicPartition("a.1", 0): 10, TopicPartition("a.2", 0): 200, TopicPartition("b", 0): 5}
FACTS = Facts("c", {}, {**dict.fromkeys(ENDS, 0), TopicPartition("a.1", 0): 7}, ENDS)


@pytest.mark.parametrize(
    ("settings", "lag"),
    [
        ({"topics": ["a.1"]}, 3),
        ({"topics": ["a.1", "a.2"]}, 203),
        ({"topics": ["^a[.].*"]}, None),
        ({"topics": ["gone"]}, None),
        ({"topics": ["a.1"], "start": "end"}, None),
        ({"topics": ["a.1"], "start": "committed"}, None),
    ],
)
def test_all_that_kafka_holds_waits_where_a_region_begins_with_it(
    settings: dict[str, Any], lag: int | None
) -> None:
    from tidemark.page.lags import _unopened

    kafka = Pipeline.load(FLIGHTS).kafka
    assert _unopened(FACTS, kafka.model_validate(kafka.model_dump() | settings)).lag == lag
