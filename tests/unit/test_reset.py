"""Where a reset goes, as a person says it; and what the mirror says it was written under."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tidemark.errors import InvalidSettings
from tidemark.model.state import Mirrored
from tidemark.protocol.errors import (
    ResetPlaceMalformed,
    ResetSeqTooLarge,
    ResetTimeTooEarly,
)
from tidemark.protocol.reset import Destination, destination


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("last", None),
        ("initial", 0),
        ("17", 17),
        ("1000", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("1970-01-01", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00+01:00", datetime(2026, 1, 31, 11, tzinfo=UTC)),
    ],
)
def test_a_destination_is_read(text: str, expected: Destination) -> None:
    assert destination(text) == expected


@pytest.mark.parametrize("text", ["", "first", "-1", "1.5", "yesterday", "12:00"])
def test_anything_else_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(ResetPlaceMalformed) as refused:
        destination(text)
    assert refused.value.given == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9223372036854775808", ResetSeqTooLarge),
        ("9" * 5000, ResetSeqTooLarge),
        ("1969-12-31T23:59:59Z", ResetTimeTooEarly),
        ("0001-01-01T00:00:00+14:00", ResetTimeTooEarly),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_asked(
    text: str, kind: type[InvalidSettings]
) -> None:
    with pytest.raises(kind):
        destination(text)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("flights/7/12", Mirrored(7, 12)),
        ("other/7/12", Mirrored(7, 12)),  # a region that had the group before
        ("flights/7", Mirrored()),
        (f"flights/{1 << 62}/12", Mirrored(1 << 62, 12)),
        (f"flights/{(1 << 62) + 1}/12", Mirrored()),  # G142: no epoch could come after it for long
        (f"flights/7/{2**63 - 2}", Mirrored()),
        (f"flights/{'9' * 4000}/12", Mirrored()),
        (f"flights/7/12/{2**63 - 2}/{UUID(int=1)}", Mirrored()),
        ("flights/-7/12", Mirrored()),
        ("flights/x/y", Mirrored()),
        ("", Mirrored()),
    ],
)
def test_only_this_regions_own_metadata_counts(metadata: str, expected: Mirrored) -> None:
    assert Mirrored.parse(metadata) == expected
