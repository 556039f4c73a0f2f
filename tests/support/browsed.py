"""DAGs that the browser looks at: one region that is well, one in trouble, others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from tests.support.produce import numbered, produce
from tests.support.world import World

SCREENSHOTS = "screenshots"
"""The folder of the pages' pictures, in the state folder of the tests."""

HOSTILE = b'<img src=x onerror="document.title=`hacked`">'
FILE = '''"""DAGs for the tests of the pages."""

from pathlib import Path

from tidemark.airflow import pipeline_dag, replay_dag, reset_dag

for name in ("well", "acted", "trouble", "fresh", "lost"):
    file = Path(__file__).with_name(f"{name}.yaml")
    globals()[name] = pipeline_dag(file, dag_id=name)
reset = reset_dag(Path(__file__).with_name("acted.yaml"), dag_id="acted_reset")
replay = replay_dag(Path(__file__).with_name("well.yaml"), dag_id="well_replay")
'''


@dataclass(frozen=True)
class Browsed:
    """The regions; the names of all but `acted` bear the same mark."""

    mark: str
    well: World
    """Four batches, one of them a dead letter's that would be markup."""
    trouble: str
    """Its topic is not there, so its runs end with INVALID_SETTINGS."""
    fresh: str
    """It has never run."""
    lost: str
    """Airflow does not know its ledger's connection."""
    acted: World
    """Four batches, of which tests take some back and make further ones; two records wait."""


def browsed(dags: Path, kafka: str, warehouse: dict[str, Any], topic: str) -> Browsed:
    """Their DAGs are in the folder; `well` and `acted` have run once, two records wait since."""
    mark = uuid4().hex[:6]
    names = {name: f"{name}_{mark}" for name in ("well", "trouble", "fresh", "lost")}
    names["acted"] = f"acted_{uuid4().hex[:6]}"
    well, acted = (
        World(kafka, warehouse, topic, names[name], {"target": _table(names[name])})
        for name in ("well", "acted")
    )
    (dags / "browsed.py").write_text(FILE)
    for name, region in names.items():
        file = well.file | {"region": region, "target": well.file["target"] | _table(region)}
        (dags / f"{name}.yaml").write_text(yaml.safe_dump(file | _FAULTS.get(name, {})))
    produce(kafka, topic, [*numbered(9), HOSTILE], 0)
    well.produce(5, partition=1, start=9)
    well.run(max_records=4)
    acted.run(max_records=4)
    well.produce(2, start=14)
    return Browsed(mark, well, names["trouble"], names["fresh"], names["lost"], acted)


_FAULTS: dict[str, dict[str, Any]] = {
    "trouble": {"kafka": {"connection": "tidemark_kafka", "topics": ["not-there"]}},
    "lost": {"target": {"connection": "nowhere", "table": "public.lost"}},
}


def _table(region: str) -> dict[str, str]:
    return {"table": f"public.{region}"}
