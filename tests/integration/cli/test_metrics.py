"""`tidemark metrics` on a real ledger and broker, read as Prometheus reads it."""

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Barrier, Lock
from urllib.error import HTTPError

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.cli.conftest import GROWS
from tests.support.commands import answer, tidemark
from tests.support.documents import table_rows
from tests.support.region import kafka_connection
from tests.support.world import World

from tidemark.cli.metrics import SharedScrape
from tidemark.ledger.starts import StartsLookup
from tidemark.model.output import Topics
from tidemark.views.metrics import BOUNDS, MOST_REASONS, Measures, metrics_of
from tidemark.views.status import OutputStatus, RegionStatus

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


@GROWS
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
    complete = datetime.fromisoformat(found["complete_at"]).timestamp()
    assert told["tidemark_complete_timestamp_seconds", only] == pytest.approx(complete)
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


@GROWS
def test_every_metric_is_described_with_its_labels(region: World) -> None:
    """B22: docs/observing.md, against what a scrape holds."""
    region.produce(1, partition=1)
    region.sql(HIDING)
    starts = StartsLookup(region.ledger().engine)
    starts.say_doorbells({region.region: None})
    starts.keep_refused_open(region.region, "refused", ("REFUSED", "Case"), "")
    rows = table_rows(PROJECT / "docs" / "observing.md", "metric", "labels")
    described = {
        name: sorted(labels.split(", "))
        for names, labels, _, _ in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    families = text_string_to_metric_families(tidemark("metrics").stdout)
    told = {family.name: labels_of(family) for family in families}
    for name in [name for name in told if name.endswith(("_gcount", "_gsum"))]:
        assert told.pop(name) == told[re.sub("_g(count|sum)$", "", name)]
    status = OutputStatus(Topics("topic"), 1, 0, 0)
    shown = [*metrics_of([Measures(RegionStatus(region.region, "closed", output=status))])]
    of_output = [family for family in shown if family.name.startswith("tidemark_output")]
    told |= {family.name: labels_of(family) for family in of_output}
    assert told == described


def test_those_who_scrape_together_share_one_look() -> None:
    """Who comes while a collection is under way waits for it, and begins none."""
    came = Barrier(2)

    class Door:
        """The lock, and who comes to it."""

        lock = Lock()

        def __enter__(self) -> None:
            if not self.lock.acquire(blocking=False):
                came.wait(120)
                self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    class Slow:
        looks = 0

        def collect(self) -> Iterator[int]:
            self.looks += 1
            came.wait(120)
            yield self.looks

    shared = SharedScrape(slow := Slow())  # type: ignore[arg-type]
    shared._lock = Door()  # type: ignore[assignment]
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda _: [*shared.collect()], range(2))] == [[1], [1]]
    assert slow.looks == 1


HIDING = """
UPDATE tidemark.run_targets SET high_watermark = target_offset + 1, stable_since = 'epoch'
"""
"""As opens see a transaction that hangs."""


def labels_of(family: Metric) -> list[str]:
    """A family without a sample has none; a bucket's bound is no label of ours."""
    assert family.samples, family.name
    return sorted({*family.samples[0].labels} - {"le"})


@pytest.mark.long
def test_dead_letters_are_told_by_reason(region: World) -> None:
    """B22: the commonest ones by name, the rest as other; together they are all of them."""
    name = region.region
    one = {("tidemark_dead_letters_by_reason", frozenset({name, "INVALID_JSON"})): 2.0}
    assert by_reason(samples(tidemark("metrics").stdout)) == one
    region.sql(DEAD_LETTERS)
    region.sql(COUNTED)
    found = by_reason(samples(tidemark("metrics").stdout))
    assert len(found) == MOST_REASONS + 1
    assert found["tidemark_dead_letters_by_reason", frozenset({name, "other"})] == 27 - 12
    assert sum(found.values()) == 27


DEAD_LETTERS = """
INSERT INTO tidemark.dead_letters
    (region, partition_id, topic, partition, "offset", seq, reason, detail)
SELECT d.region, d.partition_id, d.topic, d.partition, 1000 + n, 1,
       'reason' || lpad((n % 24)::text, 2, '0'), ''
FROM generate_series(0, 24) n, (SELECT * FROM tidemark.dead_letters LIMIT 1) d
"""
"""Of 24 more reasons; the first has two."""

COUNTED = """
UPDATE tidemark.batches SET dead_letters_moved = dead_letters_moved + 25,
    dead_letters_contributed = dead_letters_contributed + 25 WHERE seq = 1
"""


def by_reason(told: Samples) -> Samples:
    """Those alone."""
    return {k: v for k, v in told.items() if k[0] == "tidemark_dead_letters_by_reason"}


def test_what_a_transaction_hides_is_told(region: World) -> None:
    """B22: how much, and since when; and what Kafka's offsets were written for."""
    only, told = frozenset({region.region}), samples(tidemark("metrics").stdout)
    assert told["tidemark_hidden_offsets", only] == 0
    assert ("tidemark_hidden_timestamp_seconds", only) not in told
    assert told["tidemark_mirrored_seq", only] == told["tidemark_head_seq", only] == 3
    region.sql(HIDING)
    told = samples(tidemark("metrics").stdout)
    assert told["tidemark_hidden_offsets", only] == 2
    assert told["tidemark_hidden_timestamp_seconds", only] == 0


@pytest.mark.long
def test_durations_are_those_of_the_ledger(region: World) -> None:
    """B22: of the last day's checkpoints, as buckets that hold all below them."""
    region.sql("UPDATE tidemark.batches SET planned_at = published_at - interval '40 seconds'")
    region.sql("UPDATE tidemark.contributions c SET contributed_at = published_at - interval '2 s'"
               " FROM tidemark.batches b WHERE b.seq = c.seq")  # fmt: skip
    region.sql("UPDATE tidemark.batches SET published_at = published_at - interval '2 days'"
               ", planned_at = planned_at - interval '2 days' WHERE seq = 1")  # fmt: skip
    told, name = samples(tidemark("metrics").stdout), region.region
    for kind, seconds in (("batch", 40), ("drain", 38), ("publish", 2)):
        metric = f"tidemark_{kind}_duration_seconds"
        counts = {le: told[f"{metric}_bucket", frozenset({name, le})] for le in LES}
        assert counts == {le: 2.0 * (float(le) >= seconds) for le in LES}
        assert told[f"{metric}_gcount", frozenset({name})] == 2
        assert told[f"{metric}_gsum", frozenset({name})] == pytest.approx(2 * seconds)


LES = [*map(str, BOUNDS), "+Inf"]


@pytest.mark.long
def test_runs_and_retries_are_counted(region: World) -> None:
    """B22: a driver with the name of an earlier one of its run, but for the try, is a retry."""
    name, only = region.region, frozenset({region.region})
    told = samples(tidemark("metrics").stdout)
    assert told["tidemark_runs", frozenset({name, "closed"})] == 1
    assert told["tidemark_retries", only] == 0
    region.sql(
        "INSERT INTO tidemark.members (region, epoch, uuid, name)"
        " SELECT region, epoch, gen_random_uuid(), 'drain[0] try ' || n"
        " FROM tidemark.regions, generate_series(1, 3) n"
    )
    assert samples(tidemark("metrics").stdout)["tidemark_retries", only] == 2


def test_a_region_that_cannot_be_asked_is_not_up(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: what the ledger says stays; nothing is made up for Kafka."""
    monkeypatch.setenv(*kafka_connection("127.0.0.1:1").to_env())
    told = samples(tidemark("metrics", region.region).stdout)
    only = frozenset({region.region})
    assert (told["tidemark_up", only], told["tidemark_head_seq", only]) == (0, 3)
    assert not [sample for sample in told if sample[0] == "tidemark_lag_offsets"]


@pytest.mark.long
def test_each_scrape_asks_anew_and_no_password_is_told(region: World) -> None:
    """B22: `--serve` answers until it is stopped."""
    command = [sys.executable, "-m", "tidemark", "metrics", "--serve", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        told = next(line for line in process.stderr if "metrics on" in line)
        port = int(re.findall(r"127\.0\.0\.1:(\d+)", told)[0])
        scrapes = [scrape(port)]
        region.sql("UPDATE tidemark.regions SET consecutive_resets = 3")
        scrapes.append(scrape(port))
        for path in ("metric", "metrics/", "etc/passwd"):
            with pytest.raises(HTTPError) as missing:
                scrape(port, path)
            assert missing.value.code == 404
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
