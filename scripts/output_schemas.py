"""Write docs/schemas from the code: `python -m scripts.output_schemas --write`.

One JSON schema for the `-o json` output of each command: of the dataclasses that it prints, and
what the command adds to them; and one for the error in its place. Without --write they go to
stdout.
"""

import json
import sys
from pathlib import Path
from typing import Any

from scripts.json_types import Schema, Types, closed

from tidemark.admin.dead_letters import PurgeReport
from tidemark.admin.importing import ImportReport
from tidemark.admin.mirror import MirrorReport
from tidemark.admin.naming import DropReport, MoveReport, RenameReport
from tidemark.admin.replay import BatchReport, ReplayReport
from tidemark.admin.reset import ResetReport
from tidemark.admin.withhold import WithholdReport
from tidemark.cli.findings import Finding
from tidemark.cli.proposal import Field
from tidemark.errors import by_code
from tidemark.ledger.letters import KeptLetter
from tidemark.ledger.queries import Action, KnownRegion, Published, ShownMember
from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import TopicPartition
from tidemark.model.output import Topics
from tidemark.model.upsert import Upsert
from tidemark.settings.exported import ExportedOffsets
from tidemark.verify.report import BatchProof, Report
from tidemark.views.group_health import GroupHealth
from tidemark.views.status import (
    MemberHealth,
    OutputStatus,
    PartitionStatus,
    RegionStatus,
    TargetStatus,
)
from tidemark.views.verdict import Verdict
from tidemark_local.stack import ServiceStatus

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"

NAMES = {
    one.__name__: one
    for one in (MemberHealth, OutputStatus, Published, ShownMember, Topics, TopicPartition, Verdict)
}

MORE: dict[type, dict[str, Any]] = {
    BatchProof: {"verdict": str},
    GroupHealth: {"lag": int | None, "kafka_lag": int | None, "drifting": int},
    KnownRegion: {"has_file": bool},
    PartitionStatus: {"lag": int | None, "drift": int | None},
    Published: {},
    RegionStatus: {"lag": int | None, "drifting": int, "verdict": Verdict},
    Report: {"clean": bool, "wrong": int, "unverifiable": int},
    ResetReport: {"fences": list[str], "foreign": list[str]},
    TargetStatus: {"drift": int | None},
}
"""What commands add to the fields of what they print."""

OF_COMMAND: dict[str, dict[type, dict[str, Any]]] = {
    "checkpoints": {Published: {"offsets": dict[str, int]}},
    "group": {PartitionStatus: {"lag": int | None, "kafka_lag": int | None, "drift": int | None}},
}
"""And what one command adds besides."""

PRINTED: dict[str, Any] = {
    "check": {"region": str, "ok": bool, "checks": list[Finding]},
    "checkpoints": list[Published],
    "dead-letters": list[KeptLetter],
    "dead-letters-export": {"region": str, "file": str, "dead_letters": int},
    "dead-letters-purge": PurgeReport,
    "group": GroupHealth,
    "import-offsets": ImportReport,
    "init": {
        "region": str,
        "records": int,
        "looks_like": dict[str, int],
        "decode": dict[str, str],
        "fields": list[Field],
        "upsert": Upsert | None,
        "rows": int,
        "dead_letters": dict[str, int],
        "files": list[str],
        "next": list[str],
    },
    "local-status": list[ServiceStatus],
    "local-up": list[ServiceStatus],
    "migrate": {"revision": str, "changed": bool},
    "migrate-sql": {"since": str | None, "sql": str},
    "mirror": MirrorReport,
    "preview": {"records": int, "rows": list[dict[str, Any]], "dead_letters": list[DeadLetter]},
    "preview-targets": {
        "records": int,
        "rows_by_target": dict[str, list[dict[str, Any]]],
        "dead_letters": list[DeadLetter],
    },
    "preview-inferred": {"records": int, "inferred": dict[str, dict[str, str]]},
    "region-actions": list[Action],
    "region-drop": DropReport,
    "region-list": list[KnownRegion],
    "region-move": MoveReport,
    "region-rename": RenameReport,
    "replay": ReplayReport,
    "replay-batch": BatchReport,
    "reset": ResetReport,
    "run": {
        "region": str,
        "epoch": int,
        "seq": int,
        "batches": int,
        "rows": int,
        "dead_letters": int,
        "records": int,
        "seconds": float,
        "remarks": list[str],
        "offsets": dict[str, int],
    },
    "status": RegionStatus,
    "status-all": list[RegionStatus],
    "verify": Report,
    "withhold": WithholdReport,
}
"""By the command, and what of its options makes it print something else."""

LETTER = {
    "seq": int,
    "topic": str,
    "partition": int,
    "offset": int,
    "timestamp_ms": int | None,
    "published_at": str,
    "reason": str,
    "detail": str,
    "key_text": str | None,
    "key_base64": str | None,
    "value_text": str | None,
    "value_base64": str | None,
    "headers": list[dict[str, Any]] | None,
    "refused_rows": list[Any] | dict[str, list[Any]] | str | None,
    "sha256": str | None,
    "whole_bytes": int | None,
    "replayed_seq": int | None,
}
"""A dead letter as `as_line` writes it, flat."""


def schemas() -> dict[str, Schema]:
    """Each output's schema, by its name."""
    found = {name: _schema(name, of) for name, of in PRINTED.items()}
    offsets = ExportedOffsets.model_json_schema(mode="serialization")
    found |= {"offsets": _titled("offsets", offsets), "error": _of_errors()}
    return dict(sorted(found.items()))


def _of_errors() -> Schema:
    """What any command prints in place of its output when it fails."""
    text = {"type": "string"}
    parts: dict[str, dict[str, Any]] = {
        "code": {"enum": [*by_code()]},
        "case": text,
        "text": text,
        "fields": {"type": "object"},
        "hint": text,
    }
    title = {"title": "tidemark COMMAND -o json, of an error"}
    return _titled("error", closed({"error": closed(parts)})) | title


def _schema(name: str, of: Any) -> Schema:
    made = Types(NAMES, {**MORE, **OF_COMMAND.get(name, {})})
    if of == list[KeptLetter]:
        letter = closed({key: made.schema(kind) for key, kind in LETTER.items()})
        body: Schema = {"type": "array", "items": letter}
    elif isinstance(of, dict):
        body = closed({key: made.schema(kind) for key, kind in of.items()})
    else:
        body = made.schema(of)
    return _titled(name, body | ({"$defs": made.defined} if made.defined else {}))


def _titled(name: str, body: Schema) -> Schema:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **body, "title": f"tidemark {name} -o json"}


def text(schema: Schema) -> str:
    """As the file says it."""
    return json.dumps(schema, indent=1) + "\n"


def main() -> None:
    """Write or print."""
    found = schemas()
    if "--write" not in sys.argv:
        print(text(found))
        return
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, schema in found.items():
        (FOLDER / f"{name}.json").write_text(text(schema))


if __name__ == "__main__":
    main()
