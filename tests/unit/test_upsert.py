"""Texts of keys: types that have the same text for a value."""

import pytest

from tidemark.model.upsert import text_form


@pytest.mark.parametrize(
    "types",
    [
        ("smallint", "integer", "bigint", "numeric(20,0)", "numeric(5,-2)"),
        ("numeric(10,2)", "numeric(38,2)"),
        ("text", "character varying", "character varying(9)"),
        ("timestamp without time zone", "timestamp(3) without time zone"),
        ("integer[]", "bigint[]"),
    ],
)
def test_a_value_has_the_same_text_in_types_of_one_form(types: tuple[str, ...]) -> None:
    assert len(set(map(text_form, types))) == 1


def test_other_types_have_forms_of_their_own() -> None:
    types = (
        "integer", "numeric(10,1)", "numeric(10,2)", "text", "uuid", "bytea", "date", "boolean",
        "timestamp without time zone", "timestamp with time zone", "integer[]", "text[]",
    )  # fmt: skip
    assert len(set(map(text_form, types))) == len(types)
