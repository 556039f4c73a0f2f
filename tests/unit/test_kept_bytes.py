"""Of a dead letter as much is kept as there is room for, with the size and the hash of all."""

from hashlib import sha256
from typing import Any

from tidemark.model import dead_letters
from tidemark.model.batch import DeadLetter
from tidemark.model.dead_letters import Room, beginning, record_hash, size_of

HEADERS: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), ("é", None), ("b", b"22"))


def dead_letter(value: bytes | None, **others: Any) -> DeadLetter:
    found: dict[str, Any] = {"key": b"key", "headers": HEADERS, "partition": 0, **others}
    return DeadLetter(
        "t", offset=0, timestamp_ms=None, value=value, reason="r", detail="d", **found
    )


def test_what_has_room_is_kept_whole() -> None:
    """G121: the key, three headers of two, two and three bytes, and the value."""
    whole = dead_letter(b"value")
    assert size_of(whole) == 15
    assert beginning(whole, 15) is whole
    assert Room(None, 1).kept([dead_letter(b"x" * 100)]) == [dead_letter(b"x" * 100)]


def test_a_cut_letter_keeps_its_key_first_then_whole_headers_then_the_value() -> None:
    """G121: no part is longer than the room, and the size is that of all."""
    assert beginning(dead_letter(b"value"), 14).value == b"valu"
    few = beginning(dead_letter(b"value"), 7)
    assert (few.key, few.headers, few.value) == (b"key", HEADERS[:2], b"")
    none = beginning(dead_letter(None), 2)
    assert (none.key, none.headers, none.value, none.whole_bytes) == (b"ke", (), None, 10)
    assert beginning(dead_letter(b"v", headers=None), 0).headers is None


def test_the_letters_of_a_batch_have_a_bound_shared_by_its_spans(monkeypatch: Any) -> None:
    """G121: one partition's letters take nothing of another's room."""
    monkeypatch.setattr(dead_letters, "MOST_A_BATCH", 40)
    room = Room(15, spans=2)
    many = [dead_letter(b"x" * 20, key=None, headers=(), partition=n % 2) for n in range(6)]
    assert [len(one.value or b"") for one in room.kept(many)] == [15, 15, 5, 5, 0, 0]


def test_the_hash_tells_each_part_from_the_next() -> None:
    """G122: no other record has it, however its parts are cut."""
    assert record_hash(b"k", None, [("h", b"")]) == sha256(b"1:k-1:h0:").digest()
    parts = [(b"ab", b"c"), (b"a", b"bc"), (b"abc", None), (None, b"abc"), (b"abc", b"")]
    assert len({record_hash(*one, ()) for one in parts}) == len(parts)
