"""How the client holds headers is compared with its interface before it is believed."""

from struct import Struct

import pytest

from tidemark.kafka import headers


def test_the_installed_client_is_known() -> None:
    assert headers._is_known()


@pytest.mark.parametrize(
    ("name", "other"),
    [("_MESSAGE", "8N"), ("_LIST", "@2i8xN"), ("_LIST", "@i4xiN"), ("_HEADER", "8x4N")],
)
def test_a_client_that_holds_them_in_another_way_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, name: str, other: str
) -> None:
    """To find out ends no process."""
    monkeypatch.setattr(headers, name, Struct(other))
    assert not headers._is_known.__wrapped__()
