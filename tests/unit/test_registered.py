"""B12: `schema: registry`, where it means something; and the columns that take its place."""

import json
from typing import Any

import pytest
from tests.unit.test_avro import record

from tidemark.decode.errors import SubjectUnreadable
from tidemark.decode.registry import Written
from tidemark.decode.registry_columns import Asked, NewestSchema, newest
from tidemark.errors import InvalidSettings
from tidemark.model.state import RegionState
from tidemark.runs.schemas import kept
from tidemark.settings.errors import (
    FieldNameUnfit,
    FieldsOfOneName,
    RegisteredColumnsUnfit,
)
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import RegisteredColumns, registered, subject_of, with_columns

AVRO = {"format": "avro", "registry": "r", "schema": "registry"}
PROTOBUF = AVRO | {"format": "protobuf"}
DESCRIBED = PROTOBUF | {"registry": None, "descriptor": __file__, "message": "t.M"}


def loaded(topics: Any = ("orders",), **decode: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "region": "r",
            "kafka": {"connection": "k", "topics": topics},
            "decode": AVRO | decode,
            "target": {"connection": "w", "table": "public.t"},
        }
    )


def test_its_subject_is_that_of_the_topic_unless_it_is_named() -> None:
    """B12"""
    both = loaded(key=AVRO)
    assert subject_of(both, "decode") == "orders-value"
    assert subject_of(both, "decode.key") == "orders-key"
    assert subject_of(loaded(topics=["a", "b"], subject="s"), "decode") == "s"


def test_columns_take_its_place_as_if_they_were_declared() -> None:
    """B12: pasted into the file they are no change of settings."""
    fields = {"b": "int", "a": "struct<x:int>"}
    found = {"decode": RegisteredColumns(fields), "decode.key": RegisteredColumns({"b": "string"})}
    made = with_columns(loaded(key=AVRO), found)
    declared = loaded(schema=fields, key=AVRO | {"schema": {"b": "string"}})
    assert fingerprint(made) == fingerprint(declared)
    assert not registered(made)
    state = RegionState("r", 1, 1, 2, "", "", fingerprint=fingerprint(made))
    again = kept(loaded(key=AVRO), state).decode
    assert list(again.declared) == ["b", "a"]
    assert again.key
    assert again.key.declared == {"b": "string"}


def test_the_message_that_has_the_columns_is_kept_with_them() -> None:
    """B12: pasted too it is no change; one that the file names is never another one."""
    found = {
        "decode": RegisteredColumns({"a": "int"}, "t.M"),
        "decode.key": RegisteredColumns({"k": "int"}, "t.K"),
    }
    made = with_columns(loaded(**PROTOBUF, key=PROTOBUF), found)
    key = PROTOBUF | {"schema": {"k": "int"}, "message": "t.K"}
    declared = loaded(**PROTOBUF | {"schema": {"a": "int"}, "message": "t.M"}, key=key)
    assert fingerprint(made) == fingerprint(declared)
    assert fingerprint(made)["decode.message"] == "t.M"
    assert fingerprint(made)["decode.key.message"] == "t.K"
    state = RegionState("r", 1, 1, 2, "", "", fingerprint=fingerprint(made))
    again = kept(loaded(**PROTOBUF, key=PROTOBUF), state).decode
    assert again.key
    assert (again.message, again.key.message) == ("t.M", "t.K")
    assert kept(loaded(**PROTOBUF, message="t.N"), state).decode.message == "t.N"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"key_k": "int"}, RegisteredColumnsUnfit),
        ({"kafka_offset": "int"}, FieldNameUnfit),
        ({"a": "int", "A": "int"}, FieldsOfOneName),
    ],
)
def test_names_that_can_not_be_columns_are_refused(
    fields: dict[str, str], kind: type[InvalidSettings]
) -> None:
    """B12: what a registry says is checked as what a file says."""
    found = {"decode": RegisteredColumns(fields), "decode.key": RegisteredColumns({"k": "string"})}
    with pytest.raises(kind):
        with_columns(loaded(key=AVRO), found)


class Latest:
    """A registry with one schema."""

    def __init__(self, schema: Any, kind: str = "AVRO") -> None:
        self._written = Written(kind, schema if isinstance(schema, str) else json.dumps(schema))

    def latest(self, subject: str, form: str | None) -> tuple[int, Written]:
        assert form is None
        return 7, self._written


def asked(schema: Any, within: str | None = None, kind: str = "AVRO") -> NewestSchema:
    return newest(Latest(schema, kind), "avro", "s", Asked(within))  # type: ignore[arg-type]


def test_a_field_is_declared_as_the_type_that_holds_all_of_it() -> None:
    """B12: one of which a part would be left out is none."""
    inner = record(("x", "int"), ("odd", ["int", "string"]), name="I")
    found = asked(
        record(
            ("id", "long"),
            ("whole", record(("x", ["null", "int"]), name="W")),
            ("part", inner),
            ("parts", {"type": "array", "items": "I"}),
            ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        )
    )
    assert found.fields == {
        "id": "bigint", "whole": "struct<x:int>", "part": None, "parts": None, "at": "timestamp",
    }  # fmt: skip
    assert str(found) == "s version 7"
    row = asked(
        record(("before", "null"), ("after", ["null", record(("a", "int"), name="V")])), "after"
    )
    assert row.fields == {"a": "int"}


def test_a_field_of_too_many_parts_is_none() -> None:
    """B12: a few lines that name a type billions of times end the search, not the open."""
    wide: Any = "int"
    for name in ("D", "C", "B", "A"):
        named = wide if name == "D" else wide["name"]
        wide = record(("x", wide), *((f"x{at}", named) for at in range(300)), name=name)
    found = asked(record(("id", "long"), ("wide", wide)))
    assert found.fields == {"id": "bigint", "wide": None}


@pytest.mark.parametrize(
    ("schema", "kind", "case"),
    [
        ("int", "AVRO", SubjectUnreadable),
        ('"int"', "AVRO", SubjectUnreadable),
        (record(), "AVRO", SubjectUnreadable),
        ("{}", "JSON", SubjectUnreadable),
    ],
)
def test_a_subject_without_a_record_is_refused(
    schema: Any, kind: str, case: type[InvalidSettings]
) -> None:
    """B12"""
    with pytest.raises(case) as refused:
        asked(schema, kind=kind)
    assert refused.value.fields().items() >= {"subject": "s", "version": 7}.items()
