"""The files that `tidemark init` writes; names and types as YAML, Python and SQL spell them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import yaml

from tidemark import DISTRIBUTION
from tidemark.cli.faults import KeyNoColumn
from tidemark.errors import quoted
from tidemark.model.plain import inert
from tidemark.model.upsert import Upsert
from tidemark.settings.decode import DELETED_FIELD, DecodeSettings, Envelope, Metadata
from tidemark.settings.field_types import Array, Decimal, FieldType, Struct, parse_type
from tidemark.settings.format import Format
from tidemark.settings.sections import TransformKind
from tidemark.spark.specs import columns_given
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.columns import columns_of
from tidemark.staging.keyed import refuse_unfit_key_types

if TYPE_CHECKING:
    from tidemark.cli.proposal import Proposal
    from tidemark.staging.column import Column


_SAMPLES: dict[str, Any] = {
    "boolean": True, "smallint": 1, "int": 1, "bigint": 1, "float": 1.5, "double": 1.5,
    "string": "text", "binary": "AAEC", "date": "2024-01-31", "timestamp": "2024-01-31T12:00:00Z",
}  # fmt: skip
_FRAME = 'b"\\0\\0\\0\\0\\1"'
"""An id in front of a value."""


def scalar(text: str) -> str:
    """A text that YAML reads back as it is, on one line; it has no unprintable character."""
    is_plain = re.fullmatch(r"[\w.-]*\w", text) and yaml.safe_load(text) == text
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def decode_lines(proposal: "Proposal") -> Iterator[str]:
    """The lines of the section `decode`, with what is left out as comments."""
    for key, value in proposal.decode.items():
        yield f"{key}: {scalar(value)}"
    if proposal.metadata:
        yield f"metadata: {_listed(proposal.metadata)}"
    if proposal.fields:
        yield "schema:"
    for one in proposal.fields:
        if one.type:
            yield f"  {scalar(one.name)}: {_typed(one.type)}"
        else:
            yield f"  # {inert(one.name)}: {inert(one.why)}"


def mode_lines(upsert: Upsert | None) -> Iterator[str]:
    """The lines of the section `target` that say how rows enter it."""
    if upsert:
        yield "mode: upsert"
        yield f"key: {_listed(upsert.key)}"
    if upsert and upsert.deleted:
        yield f"deleted: {scalar(upsert.deleted)}"


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(map(scalar, names))}]"


def record(proposal: "Proposal") -> str:
    """A made-up value of a record, as Python; its fields are of the declared types."""
    if proposal.decode["format"] == Format.raw:
        return 'b"bytes"'
    types = {name: parse_type(text) for name, text in proposal.declared.items()}
    fields = [(name, _sample(kind)) for name, kind in types.items()]
    if proposal.tells_deletions:
        fields = [(name, False if name == DELETED_FIELD else value) for name, value in fields]
    row = _lines((_literal(name), _literal(value)) for name, value in fields)
    if proposal.decode.get("envelope") == Envelope.debezium:
        after = row.replace("\n", "\n    ")  # names are escaped: each is on one line
        row = _lines([('"op"', '"c"'), ('"before"', "None"), ('"after"', after)])
    return f"{_FRAME} + json.dumps({row}).encode()" if "framing" in proposal.decode else row


def _lines(pairs: Iterable[tuple[str, str]]) -> str:
    """A dict as Python spells it, a line each."""
    lines = "".join(f"    {key}: {value},\n" for key, value in pairs)
    return f"{{\n{lines}}}"


def columns(proposal: "Proposal", upsert: Upsert | None) -> str:
    """What a run gives the table that it makes of the rows, as SQL, a line each."""
    found = [f"{quoted(one.name)} {one.postgres_type}" for one in table_columns(proposal, upsert)]
    found.append(f"{BATCH_SEQ} bigint NOT NULL")
    if upsert:
        found.append(f"PRIMARY KEY ({', '.join(map(quoted, upsert.key))})")
    return ",\n".join(f"    {line}" for line in found)


def table_columns(proposal: "Proposal", upsert: Upsert | None) -> "list[Column]":
    """The columns of the rows that the table gets: metadata is what the transform drops."""
    settings = DecodeSettings.model_validate({**proposal.section, "metadata": []})
    found = columns_of(columns_given(settings))
    return [one for one in found if not upsert or one.name != upsert.deleted]


def _typed(text: str) -> str:
    is_plain = re.fullmatch(r"[\w(),<>:]+", text, re.ASCII)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _literal(value: Any) -> str:
    """As Python spells it, in ASCII and with double quotes."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case str() if value.isascii():
            return json.dumps(value)
        case _:
            return ascii(value)


def _sample(declared: FieldType) -> Any:
    match declared:
        case Decimal():
            return "0"
        case Array(item):
            return [_sample(item)]
        case Struct(members):
            return {name: _sample(member) for name, member in members}
        case _:
            return _SAMPLES[declared.name]


Draft = Mapping[str, Any]
"""A pipeline file's content, without the section decode."""

DELETED = "deleted"
"""The column that an envelope adds."""


@dataclass(frozen=True, slots=True)
class NewPipeline:
    """A pipeline that is still to be written, in a project's folder."""

    project: Path
    draft: Draft
    transform: TransformKind | None = None
    drops_tombstones: bool = False
    """Whether the transform drops what follows a deletion among change events."""

    @property
    def region(self) -> str:
        """Its name."""
        return str(self.draft["region"])

    @property
    def upsert(self) -> Upsert | None:
        """How rows are told apart; None: they are appended."""
        target = self.draft["target"]
        if "key" not in target:
            return None
        is_of_changes = self.drops_tombstones
        return Upsert(tuple(target["key"]), None, target.get("deleted"), is_of_changes)

    @property
    def file(self) -> Path:
        """The pipeline file."""
        return self.project / "dags" / f"{self.region}.yaml"

    @property
    def test(self) -> Path:
        """The integrity test."""
        return self.project / "tests" / f"test_{self.region}.py"

    @property
    def job(self) -> Path:
        """The transform, if one is wanted."""
        return self.project / "jobs" / f"{self.region}.py"

    @property
    def ddl(self) -> Path:
        """The table's statement."""
        return self.project / "sql" / f"{self.region}.sql"

    @property
    def paths(self) -> list[Path]:
        """What is written."""
        found = [self.file, self.file.with_suffix(".py"), self.test, self.ddl]
        return [*found, self.job] if self.transform else found

    def texts(self, proposal: "Proposal") -> dict[Path, str]:
        """The files with their texts."""
        found = {
            self.file: self._pipeline(proposal),
            self.file.with_suffix(".py"): _filled("dag.py", region=self.region),
            self.test: self._test(proposal),
            self.ddl: self._table(proposal),
        }
        if self.transform:
            kind = f"{self.transform}{'_changes' if self.drops_tombstones else ''}.py"
            found[self.job] = _filled(kind, region=self.region)
            package = self.job.with_name("__init__.py")
            found |= {} if package.exists() else {package: '"""Transforms."""\n'}
        return found

    def _pipeline(self, proposal: "Proposal") -> str:
        kafka, target = self.draft["kafka"], self.draft["target"]
        job = f"transform: jobs.{self.region}:transform\n" if self.transform else ""
        return _filled(
            "pipeline.yaml",
            from_topic=inert(f"Topic {kafka['topics'][0]}"),
            table_name=inert(target["table"]),
            region=scalar(self.region),
            kafka=scalar(kafka["connection"]),
            topics=", ".join(map(scalar, kafka["topics"])),
            start=kafka["start"],
            decode="".join(f"  {line}\n" for line in decode_lines(proposal)),
            transform=job,
            warehouse=scalar(target["connection"]),
            table=scalar(target["table"]),
            mode="".join(f"  {line}\n" for line in mode_lines(self.upsert)),
        )

    def _test(self, proposal: "Proposal") -> str:
        if "registry" in proposal.decode:  # which no test asks
            return _filled("test.py", region=self.region, testing=TESTING)
        text = record(proposal)
        imports = "import json\n" if "json.dumps" in text else ""
        return _filled(
            "test_records.py",
            region=self.region,
            imports=imports,
            record=text,
            testing=TESTING,
            tombstone=_filled("test_tombstone.py") if self.drops_tombstones else "",
        )

    def _table(self, proposal: "Proposal") -> str:
        table = self.draft["target"]["table"]
        lines = columns(proposal, self.upsert)
        return _filled("table.sql", region=self.region, table=table, columns=lines)


TESTING = f"{DISTRIBUTION}[testing]"
"""What a written test needs to look at the table's statement."""


def _filled(name: str, **values: str) -> str:
    template = resources.files("tidemark.cli") / "templates" / f"{name}.txt"
    return Template(template.read_text(encoding="utf-8")).substitute(values)


def mode(keys: str | None) -> dict[str, Any]:
    """The keys of the section `target` for an upsert by these columns; none: rows are appended."""
    if keys is None:
        return {}
    return {"mode": "upsert", "key": [name.strip() for name in keys.split(",")]}


def upserting(new: NewPipeline, found: "Proposal") -> "tuple[NewPipeline, Proposal]":
    """What is to be written, where rows are upserted; the same where they are appended.

    Of change events, also flattened ones, a deletion deletes the row. The tombstone behind it
    becomes a row, too, which a transform drops: else each would be a dead letter.

    Raises:
        InvalidSettings: a column of the key is none of the rows', or can't tell rows apart.
    """
    upsert = new.upsert
    if upsert is None:
        return new, found
    deleted = DELETED_FIELD if found.tells_deletions else DELETED
    if found.tells_deletions or found.decode.get("envelope") == Envelope.debezium:
        upsert = replace(upsert, deleted=deleted)
        target = {**new.draft["target"], "deleted": deleted}
        new = replace(
            new,
            draft={**new.draft, "target": target},
            transform=new.transform or TransformKind.arrow,
            drops_tombstones=True,
        )
        found = replace(found, metadata=(str(Metadata.tombstone),))
    _refuse_unfit(new.draft["target"]["table"], found, upsert)
    return new, found


def _refuse_unfit(table: str, found: "Proposal", upsert: Upsert) -> None:
    types = {one.name: one.postgres_type for one in table_columns(found, upsert)}
    if missing := [name for name in upsert.key if name not in types]:
        why = {one.name: one.why for one in found.fields if one.name in missing}
        raise KeyNoColumn(missing=tuple(missing), columns=tuple(types), why=why)
    refuse_unfit_key_types(table, types, upsert.key)
