"""Registered: the parts of a pipeline whose columns are those of a registry's newest schema."""

from collections.abc import Mapping
from typing import Any

from tidemark.errors import InvalidSettings
from tidemark.settings.decode import refuse_twice
from tidemark.settings.field_types import check_names
from tidemark.settings.format import FormatSettings
from tidemark.settings.pipeline import Pipeline

KEY = "decode.key"


def registered(pipeline: Pipeline) -> dict[str, FormatSettings]:
    """The parts with `schema: registry`, by their section of the file."""
    decode = pipeline.decode
    parts = {"decode": decode} | ({KEY: decode.key} if decode.key else {})
    return {section: part for section, part in parts.items() if part.is_registered}


def subject_of(pipeline: Pipeline, section: str) -> str:
    """The subject that a part names, or else its topic does."""
    named = registered(pipeline)[section].subject
    return named or f"{pipeline.kafka.topics[0]}-{'key' if section == KEY else 'value'}"


def kept_columns(fingerprint: Mapping[str, Any], section: str) -> dict[str, str]:
    """The fields of a part, with their types, that a fingerprint tells."""
    prefix = f"{section}.schema."
    return {
        name.removeprefix(prefix): kind
        for name, kind in fingerprint.items()
        if name.startswith(prefix)
    }


def with_columns(pipeline: Pipeline, columns: Mapping[str, Mapping[str, str]]) -> Pipeline:
    """The pipeline as if its file declared these fields, by section.

    Raises:
        InvalidSettings: a name can't be a column, or would be one twice.
    """
    decode = pipeline.decode
    for section, fields in columns.items():
        check_names(fields)
        update = {"fields": dict(fields), "subject": None}
        if section == KEY and decode.key:
            decode = decode.model_copy(update={"key": decode.key.model_copy(update=update)})
        else:
            decode = decode.model_copy(update=update)
    try:
        refuse_twice(decode)
    except InvalidSettings as error:
        raise InvalidSettings(f"{', '.join(columns)}.schema: registry: {error}") from error
    return pipeline.model_copy(update={"decode": decode})
