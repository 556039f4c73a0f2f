"""`tidemark metrics` on a real ledger and broker, read as Prometheus reads it."""

import re
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.commands import answer, tidemark
from tests.support.documents import table_rows
from tests.support.members import until
from tests.support.region import kafka_connection
from tests.support.world import World

from tidemark.operations.metrics import metrics_of
from tidemark.operations.output_status import OutputStatus
from tidemark.operations.status import RegionStatus

PROJECT = Path(__file__).resolve().parents[3]
Samples = dict[tuple[str, frozenset[str]], float]
"""A sample by its name and its labels' values."""


def samples(text: str) -> Samples:
    """What Prometheus reads."""
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_say_what_status_says(region: World) -> None:
    """B22: names, labels and values, each from another place."""
    region.produce(4, partition=1)
    found, told = answer("status", region.region), samples(tidemark("metrics").stdout)
    name = region.region
    only = frozenset({name})
    for one in found["partitions"]:
        at = frozenset({name, one["topic"], str(one["partition"])})
        assert told["tidemark_lag_offsets", at] == one["lag"]
        assert told["tidemark_drift_offsets", at] == 0
    assert sum(v for (metric, _), v in told.items() if metric == "tidemark_lag_offsets") == 4
    (newest,) = answer("checkpoints", name, "--last", "1")
    published = datetime.fromisoformat(newest["published_at"]).timestamp()
    assert told["tidemark_checkpoint_timestamp_seconds", only] == pytest.approx(published)
    assert told["tidemark_batch_records", only] == newest["records"]
    assert told["tidemark_batch_rows", only] == newest["rows"]
    assert 0 < told["tidemark_batch_seconds", only] < 3600
    assert (
        told["tidemark_target_rows", only | {"public.records"}]
        == 17
        == region.sql("SELECT count(*) FROM public.records")[0][0]
    )
    assert told["tidemark_dead_letters", only] == 2
    assert (told["tidemark_up", only], told["tidemark_state", only | {"closed"}]) == (1, 1)
    assert told["tidemark_member_partitions", only | {"m1"}] == len(found["partitions"])


def test_every_metric_is_described_with_its_labels(region: World) -> None:
    """B22: docs/operating.md, against what a scrape holds."""
    rows = table_rows(PROJECT / "docs" / "operating.md", "metric", "labels")
    described = {
        name: sorted(labels.split(", "))
        for names, labels, _ in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    families = text_string_to_metric_families(tidemark("metrics").stdout)
    told = {family.name: sorted(family.samples[0].labels) for family in families}
    status = OutputStatus("topic", 1, 0, 0)
    shown = [*metrics_of([RegionStatus(region.region, "closed", output=status)])]
    of_output = [family for family in shown if family.name.startswith("tidemark_output")]
    told |= {family.name: sorted(family.samples[0].labels) for family in of_output}
    assert told == described


def test_a_region_that_cannot_be_asked_is_not_up(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: what the ledger says stays; nothing is made up for Kafka."""
    monkeypatch.setenv(*kafka_connection("127.0.0.1:1").to_env())
    begin = time.monotonic()
    told = samples(tidemark("metrics", region.region).stdout)
    only = frozenset({region.region})
    assert (told["tidemark_up", only], told["tidemark_head_seq", only]) == (0, 3)
    assert not [sample for sample in told if sample[0] == "tidemark_lag_offsets"]
    assert time.monotonic() - begin < 10  # then Prometheus gives up


def test_each_scrape_asks_anew_and_no_password_is_told(region: World) -> None:
    """B22: `--serve` answers until it is stopped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tidemark", "metrics", "--serve", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        scrapes: list[str] = []

        def is_answered() -> bool:
            try:
                scrapes.append(scrape(port))
            except OSError:
                assert process.poll() is None
            return bool(scrapes)

        until(is_answered)
        region.sql("UPDATE tidemark.regions SET consecutive_resets = 3")
        scrapes.append(scrape(port))
        for path in ("metric", "metrics/", "etc/passwd"):
            with pytest.raises(HTTPError, match="404"):
                scrape(port, path)
        assert samples(scrape(port, "")).keys() == samples(scrapes[0]).keys()
        process.terminate()
    resets = ("tidemark_consecutive_resets", frozenset({region.region}))
    assert (samples(scrapes[0])[resets], samples(scrapes[1])[resets]) == (0, 3)
    assert region.warehouse["password"] not in "".join(scrapes)


def scrape(port: int, path: str = "metrics") -> str:
    """What Prometheus would get."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answered:
        text: str = answered.read().decode()
        return text


@pytest.mark.parametrize("address", ["9464", ":9464", "127.0.0.1:http", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(region: World, address: str) -> None:
    assert f"--serve {address}" in tidemark("metrics", "--serve", address, exits=2).stderr
