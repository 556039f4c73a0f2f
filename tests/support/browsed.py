"""DAGs that the browser looks at: one region that is well, one in trouble, others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from tests.support.produce import numbered, produce
from tests.support.world import World

HOSTILE = b'<img src=x onerror="document.title=`hacked`">'
FILE = '''"""DAGs for the tests of the pages."""

from pathlib import Path

from tidemark.airflow import pipeline_dag, replay_dag, reset_dag

for name in ("well", "trouble", "fresh", "lost"):
    file = Path(__file__).with_name(f"{name}.yaml")
    globals()[name] = pipeline_dag(file, dag_id=name)
reset = reset_dag(Path(__file__).with_name("well.yaml"), dag_id="well_reset")
replay = replay_dag(Path(__file__).with_name("well.yaml"), dag_id="well_replay")
'''


@dataclass(frozen=True)
class Browsed:
    """The regions; the names of all bear the same mark."""

    mark: str
    well: World
    """Four batches, one of them a dead letter's that would be markup."""
    trouble: str
    """Its topic is not there, so its runs end with INVALID_SETTINGS."""
    fresh: str
    """It has never run."""
    lost: str
    """Airflow does not know its ledger's connection."""


def browsed(dags: Path, kafka: str, warehouse: dict[str, Any], topic: str) -> Browsed:
    """Their DAGs are in the folder; the region `well` has run once, two records wait since."""
    mark = uuid4().hex[:6]
    names = {name: f"{name}_{mark}" for name in ("well", "trouble", "fresh", "lost")}
    well = World(kafka, warehouse, topic, names["well"], {"target": _table(names["well"])})
    (dags / "browsed.py").write_text(FILE)
    for name, region in names.items():
        file = well.file | {"region": region, "target": well.file["target"] | _table(region)}
        (dags / f"{name}.yaml").write_text(yaml.safe_dump(file | _FAULTS.get(name, {})))
    produce(kafka, topic, [*numbered(9), HOSTILE], 0)
    well.produce(5, partition=1, start=9)
    well.run(max_records=4)
    well.produce(2, start=14)
    return Browsed(mark, well, *(names[name] for name in ("trouble", "fresh", "lost")))


_FAULTS: dict[str, dict[str, Any]] = {
    "trouble": {"kafka": {"connection": "tidemark_kafka", "topics": ["not-there"]}},
    "lost": {"target": {"connection": "nowhere", "table": "public.lost"}},
}


def _table(region: str) -> dict[str, str]:
    return {"table": f"public.{region}"}
