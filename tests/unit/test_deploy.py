"""B22: the dashboard and the alerts ask for metrics that are told, in Prometheus' own language."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.documents import table_rows

from tidemark.ledger.queries import Durations, Hidden, Published, ShownMember
from tidemark.ledger.starts import RefusedOpen, Said, Starts
from tidemark.model.offsets import TopicPartition
from tidemark.model.output import Topics
from tidemark.views.metrics import InLedger, Measures, metrics_of
from tidemark.views.status import OutputStatus, PartitionStatus, RegionStatus, TargetStatus

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
UNPACKED = ROOT / ".tidemark" / "promtool" / "usr" / "bin"
"""Where scripts/promtool unpacks Debian's."""


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "tidemark.json").read_text())
    return found


def expressions() -> Iterator[str]:
    """Of the alerts and of the dashboard."""
    for rule in alerts():
        yield rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$region", ".*")


def asked() -> set[str]:
    """Each by its family's name."""
    found = re.findall(r"\btidemark_\w+", " ".join(expressions()))
    return {re.sub("_(bucket|gcount|gsum)$", "", name) for name in found}


def told() -> set[str]:
    """Every metric, of a region that has everything."""
    now = datetime.now(UTC)
    region = RegionStatus(
        "flights",
        "closed",
        1, 1, 0, None, 0, 0,
        partitions=(PartitionStatus("flights", 0, 1, 1, 1),),
        targets=(TargetStatus("", "public.flights", 0, 1),),
        members=(ShownMember(1, "m", "idle", ["flights[0]"], 5, 5, now, now, 0.0),),
        newest=Published(1, 1, 1, 1, 0, now, now, 1, 0),
        complete_at=now,
        output=OutputStatus(Topics("out"), 1, 0, 0),
        starts=Starts(
            RefusedOpen("run", "REFUSED", "Case", "", now), Said(None, None, now, False, now)
        ),
    )  # fmt: skip
    hidden = Hidden(1, now)
    kept = InLedger([Durations(1, 1, 0)], {"not_json": 1}, {"closed": 1}, 0, hidden)
    measured = Measures(region, kept, {TopicPartition("flights", 0): 1}, 1)
    found = list(metrics_of([measured]))
    assert [family.name for family in found if not family.samples] == []
    return {family.name for family in found}


def test_every_metric_that_is_asked_for_is_told_and_shown() -> None:
    """B22: by the exporter; none is left out of the dashboard."""
    assert asked() - told() == set()
    shown = " ".join(one["expr"] for panel in dashboard()["panels"] for one in panel["targets"])
    assert {name for name in told() if not re.search(rf"\b{name}(_bucket)?\b", shown)} == set()


@pytest.mark.parametrize(("service", "then"), [("airflow-init", "umask"), ("postgres", "exec")])
def test_compose_takes_no_secret_of_the_example(service: str, then: str) -> None:
    """Airflow does not begin, and no password of the example comes into Postgres' volume."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    script = compose[service]["command"][0].partition(then)[0]
    for secret, code in (("change-me", 1), ("another", 0)):
        ended = subprocess.run(
            ["/bin/bash", "-euc", script],
            env={"PATH": os.defpath, "A_PASSWORD": f"x://user:{secret}@host"},
            capture_output=True,
            text=True,
        )
        assert (ended.returncode, "change-me" in ended.stderr) == (code, bool(code))


def test_every_secret_of_composes_example_is_looked_at() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    looked_at = json.dumps([compose[name] for name in ("airflow-init", "postgres")])
    example = (ROOT / ".env.example").read_text()
    secrets = re.findall(r"^(\w+)=change-me$", example, re.MULTILINE)
    assert len(secrets) == 7
    assert set(secrets) <= set(re.findall(r"\$\{(\w+)", looked_at))


def test_every_alert_is_in_the_runbook() -> None:
    """B22: and no other."""
    rows = table_rows(ROOT / "docs" / "observing.md", "alert", "what to do")
    assert [row[0].strip("`") for row in rows] == [rule["alert"] for rule in alerts()]
    assert {rule["annotations"]["runbook"] for rule in alerts()} == {"docs/observing.md#alerts"}


def test_alerts_fire_when_they_should() -> None:
    """B22: none for a region that is well, each for one in its trouble; by Prometheus itself."""
    with_promtool("test", "rules", DEPLOY / "prometheus" / "alerts_test.yaml")


def test_every_expression_is_one(tmp_path: Path) -> None:
    """B22: so that Prometheus and Grafana can ask it."""
    rules = [{"record": f"number_{at}", "expr": text} for at, text in enumerate(expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    with_promtool("check", "rules", file)


def with_promtool(*arguments: str | Path) -> None:
    """It finds no fault; the test is skipped where there is none."""
    tool = shutil.which("promtool") or shutil.which("promtool", path=UNPACKED)
    if tool is None:
        pytest.skip("no promtool: apt-get install prometheus, or scripts/promtool unpacks it")
    found = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
