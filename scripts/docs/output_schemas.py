"""The files of docs/schemas: one JSON schema for the `-o json` output of each command.

Each is made of the dataclasses that the command prints, and of what it adds to them; one is of the
error in its place. Pydantic makes them; here is what it can't know: how `tidemark.model.plain`
writes values.
"""

import json
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from tidemark.admin import dead_letters, drop, importing, mirror, replay_report, reset, withhold
from tidemark.check.findings import Finding
from tidemark.cli.proposal import Field
from tidemark.errors import by_code
from tidemark.ledger.queries import Action, Completeness, KnownRegion, Published, ShownMember
from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import TopicPartition
from tidemark.model.upsert import Upsert
from tidemark.settings.exported import ExportedOffsets
from tidemark.verify.report import AuditReport, BatchProof, Report
from tidemark.views import status
from tidemark.views.group_health import GroupHealth
from tidemark.views.status import PartitionStatus, RegionStatus, TargetStatus
from tidemark.views.verdict import Verdict
from tidemark_local.stack import ServiceStatus

Schema = dict[str, Any]
Parts = Mapping[str, Any]
"""The type of each part, by its name."""

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"

CONFIG = ConfigDict(
    extra="forbid", use_attribute_docstrings=True, json_schema_serialization_defaults_required=True
)

NAMES = vars(status) | {
    one.__name__: one for one in (Published, ShownMember, TopicPartition, Verdict)
}
"""What annotations name that is imported for types alone."""

MORE: dict[type, Parts] = {
    AuditReport: {"clean": bool, "wrong": int},
    BatchProof: {"verdict": str},
    Completeness: {"age_s": int},
    GroupHealth: {"lag": int | None, "kafka_lag": int | None, "drifting": int},
    KnownRegion: {"has_file": bool},
    PartitionStatus: {"lag": int | None, "drift": int | None},
    RegionStatus: {"lag": int | None, "drifting": int | None, "verdict": Verdict},
    Report: {"clean": bool, "wrong": int, "unverifiable": int},
    reset.ResetReport: {"fences": list[str], "foreign": list[str]},
    TargetStatus: {"drift": int | None},
}
"""What commands add to the fields of what they print."""

OF_COMMAND: dict[str, dict[type, Parts]] = {
    "checkpoints": {Published: {"offsets": dict[str, int]}},
    "group": {PartitionStatus: {"lag": int | None, "kafka_lag": int | None, "drift": int | None}},
}
"""And what one command adds besides."""


class DeadLetterLine(TypedDict):
    """A dead letter as `as_line` writes it, flat."""

    seq: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    published_at: str
    reason: str
    detail: str
    key_text: str | None
    key_base64: str | None
    value_text: str | None
    value_base64: str | None
    headers: list[dict[str, Any]] | None
    refused_rows: list[Any] | dict[str, list[Any]] | str | None
    sha256: str | None
    whole_bytes: int | None
    replayed_seq: int | None


OF_TYPES: dict[str, Any] = {"record_types": dict[str, int], "wrappers": dict[str, int]}
"""What records were looked at: by their types, and by what is around their rows."""

PRINTED: dict[str, Any] = {
    "audit": AuditReport,
    "check": {"region": str, "ok": bool, "checks": list[Finding]},
    "checkpoints": list[Published],
    "complete": Completeness,
    "dead-letters": list[DeadLetterLine],
    "dead-letters-export": {"region": str, "file": str, "dead_letters": int},
    "dead-letters-purge": dead_letters.PurgeReport,
    "group": GroupHealth,
    "import-offsets": importing.ImportReport,
    "init": {
        "region": str,
        "records": int,
        "looks_like": dict[str, int],
        **OF_TYPES,
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
    "mirror": mirror.MirrorReport,
    "preview": {
        "records": int,
        **OF_TYPES,
        "rows": list[dict[str, Any]],
        "dead_letters": list[DeadLetter],
    },
    "preview-targets": {
        "records": int,
        **OF_TYPES,
        "rows_by_target": dict[str, list[dict[str, Any]]],
        "dead_letters": list[DeadLetter],
    },
    "preview-inferred": {"records": int, **OF_TYPES, "inferred": dict[str, dict[str, str]]},
    "region-actions": list[Action],
    "region-drop": drop.DropReport,
    "region-list": list[KnownRegion],
    "replay": replay_report.ReplayReport,
    "reset": reset.ResetReport,
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
    "withhold": withhold.WithholdReport,
}
"""By the command, and what of its options makes it print something else."""


class Written(GenerateJsonSchema):
    """As `tidemark.model.plain` writes values; a dataclass with what commands add to it."""

    more: Mapping[type, Parts] = MORE

    def field_title_should_be_set(self, schema: Any) -> bool:
        """A title would say the name once more."""
        return False

    def default_schema(self, schema: Any) -> Schema:
        """Every part is written, also one that is as by default."""
        return self.generate_inner(schema["schema"])

    def bytes_schema(self, schema: Any) -> Schema:
        """As base64."""
        return {"type": "string", "contentEncoding": "base64"}

    def dict_schema(self, schema: Any) -> Schema:
        """Keys are texts, whatever they were."""
        return {k: v for k, v in super().dict_schema(schema).items() if k != "propertyNames"}

    def dataclass_schema(self, schema: Any) -> Schema:
        """With the first words of its docstring, and what is derived."""
        made = super().dataclass_schema(schema)
        made["description"] = cleandoc(schema["cls"].__doc__).split("\n\n")[0]
        for name, kind in self.more.get(schema["cls"], {}).items():
            made["properties"][name] = self.generate_inner(_adapter(kind).core_schema)["items"]
            made["required"].append(name)
        return made


def _adapter(of: Any) -> TypeAdapter[Any]:
    """A list's, because a dataclass by itself is given no configuration."""
    made = TypeAdapter(list[of], config=CONFIG)
    made.rebuild(_types_namespace=NAMES)
    return made


def schemas() -> dict[str, Schema]:
    """Each output's schema, by its name."""
    found = {name: _schema(name, of) for name, of in PRINTED.items()}
    offsets = ExportedOffsets.model_json_schema(mode="serialization")
    found |= {"offsets": _titled("offsets", offsets), "error": _of_errors()}
    return dict(sorted(found.items()))


def _object(name: str, parts: Parts) -> Any:
    """The type of an object with these parts, all of them, and no others."""
    return TypedDict(name, dict(parts))  # type: ignore[operator]


def _of_errors() -> Schema:
    """What any command prints in place of its output when it fails."""
    codes = Literal[*by_code()]  # type: ignore[valid-type]
    parts = {"code": codes, "case": str, "text": str, "fields": dict[str, Any], "hint": str}
    made = _schema("error", {"error": _object("Error", parts)})
    return made | {"title": "tidemark COMMAND -o json, of an error"}


def _schema(name: str, of: Any) -> Schema:
    kind = _object(name, of) if isinstance(of, dict) else of
    more = {**MORE, **OF_COMMAND.get(name, {})}
    generator = type("Written", (Written,), {"more": more})
    made = _adapter(kind).json_schema(mode="serialization", schema_generator=generator)
    body, parts = made["items"], made.get("$defs", {})
    if isinstance(of, dict):  # a name that is ours alone
        body = parts.pop(body["$ref"].rpartition("/")[2])
    return _titled(name, body | ({"$defs": parts} if parts else {}))


def _titled(name: str, body: Schema) -> Schema:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **body, "title": f"tidemark {name} -o json"}


def text(schema: Schema) -> str:
    """As the file says it."""
    return json.dumps(schema, indent=1) + "\n"


def write() -> None:
    """All files of docs/schemas, and no others."""
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, schema in schemas().items():
        (FOLDER / f"{name}.json").write_text(text(schema))
