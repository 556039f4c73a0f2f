"""What the README lets its reader type works, on a real broker."""

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.support.documents import ROOT, blocks


def test_the_records_of_the_readme_arrive(
    kafka: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another name: the broker is shared."""
    [block] = [one for one in blocks(ROOT / "README.md") if "local produce" in one.text]
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka}}
    monkeypatch.setenv("AIRFLOW_CONN_TIDEMARK_KAFKA", json.dumps(connection))
    typed = block.text.replace(".venv/bin/tidemark", f"{sys.executable} -m tidemark")
    subprocess.run(["sh", "-ec", typed.replace("clicks", group)], check=True)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    ends = [consumer.get_watermark_offsets(TopicPartition(group, n), 20)[1] for n in range(4)]
    consumer.close()
    assert sum(ends) == 1000
