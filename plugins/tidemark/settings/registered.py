"""Registered: the parts of a pipeline whose columns are those of a registry's newest schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidemark.errors import InvalidSettings
from tidemark.settings.decode import refuse_twice
from tidemark.settings.errors import RegisteredColumnsUnfit
from tidemark.settings.field_types import check_names
from tidemark.settings.format import FormatSettings
from tidemark.settings.pipeline import Pipeline

KEY = "decode.key"

Part = TypeVar("Part", bound=FormatSettings)


@dataclass(frozen=True, slots=True)
class RegisteredColumns:
    """What a schema says of a part."""

    fields: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None
    """Which message values are, of a format whose schemas have several."""


def registered(pipeline: Pipeline) -> dict[str, FormatSettings]:
    """The parts with `schema: registry`, by their section of the file."""
    decode = pipeline.decode
    parts = {"decode": decode} | ({KEY: decode.key} if decode.key else {})
    return {section: part for section, part in parts.items() if part.is_registered}


def subject_of(pipeline: Pipeline, section: str) -> str:
    """The subject that a part names, or else its topic does."""
    named = registered(pipeline)[section].subject
    return named or f"{pipeline.kafka.topics[0]}-{'key' if section == KEY else 'value'}"


def kept_columns(fingerprint: Mapping[str, Any], section: str) -> RegisteredColumns:
    """Those of a part that a fingerprint tells."""
    prefix = f"{section}.schema."
    fields = {
        name.removeprefix(prefix): kind
        for name, kind in fingerprint.items()
        if name.startswith(prefix)
    }
    return RegisteredColumns(fields, fingerprint.get(f"{section}.message"))


def with_columns(pipeline: Pipeline, columns: Mapping[str, RegisteredColumns]) -> Pipeline:
    """The pipeline as if its file declared these, by section; a message that it names stays.

    Raises:
        InvalidSettings: a name can't be a column, or would be one twice.
    """
    decode = pipeline.decode
    for section, found in columns.items():
        check_names(found.fields)
        if section == KEY and decode.key:
            decode = decode.model_copy(update={"key": _declaring(decode.key, found)})
        else:
            decode = _declaring(decode, found)
    try:
        refuse_twice(decode)
    except InvalidSettings as error:
        raise RegisteredColumnsUnfit(sections=tuple(columns), problem=error) from error
    return pipeline.model_copy(update={"decode": decode})


def _declaring(part: Part, found: RegisteredColumns) -> Part:
    message = part.message or found.message
    update = {"fields": dict(found.fields), "subject": None, "message": message}
    return part.model_copy(update=update)
