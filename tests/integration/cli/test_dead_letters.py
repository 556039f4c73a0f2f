"""`tidemark dead-letters`: choosing them, and writing them to a file."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import (
    answer,
    refusal,
    tidemark,
)
from tests.support.world import World

from tidemark.ledger import kept_dead_letters


def chosen(region: World, *flags: str) -> list[int]:
    """The partitions of the dead letters that are shown."""
    return sorted(one["partition"] for one in answer("dead-letters", region.region, *flags))


def lines(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_dead_letters_are_chosen_by_reason_time_and_partition(region: World) -> None:
    """B14: a time is that of the batch's publish, for a record's own time is foreign data."""
    region.sql("UPDATE tidemark.dead_letters SET reason = 'OTHER' WHERE partition = 1")
    region.sql(
        "UPDATE tidemark.batches SET published_at = '2026-01-31' WHERE seq ="
        " (SELECT seq FROM tidemark.dead_letters WHERE partition = 1)"
    )
    assert chosen(region) == [0, 1]
    assert chosen(region, "--reason", "OTHER") == [1]
    assert chosen(region, "--reason", "OTHER", "--reason", "INVALID_JSON") == [0, 1]
    assert chosen(region, "--since", "2026-02-01") == [0]
    assert chosen(region, "--until", "2026-02-01T00:00:00Z") == [1]
    assert chosen(region, "--partition", str(region.partition(1))) == [1]
    told = tidemark("dead-letters", region.region, "--reason", "WRONG_TYPE").stdout
    assert f"region {region.region} has no such dead letters" in told


@pytest.mark.long
def test_a_reason_that_none_has_is_named(region: World) -> None:
    """B14: a mistyped one must not look like none left; a decoder's own is known by the ledger."""
    for command in (("dead-letters",), ("replay", "--dead-letters"), ("dead-letters", "--purge",
                    "--older-than", "1d"), ("dead-letters", "--export", "out.jsonl")):  # fmt: skip
        name, *rest = command
        told = refusal(name, region.region, *rest, "--reason", "INVALID_JSN", exits=2)
        assert (told.case, told.fields["found"]) == ("ReasonUnknown", ["INVALID_JSON"])
    region.sql("UPDATE tidemark.dead_letters SET reason = 'OWN' WHERE partition = 1")
    assert chosen(region, "--reason", "OWN") == [1]
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (("--export", "f", "--purge", "--older-than", "1d", "--apply"), ["--export", "--purge"]),
        (("--older-than", "1d"), ["--older-than"]),
        (("--older-than", "1d", "--apply"), ["--older-than", "--apply"]),
        (("--export", "f", "--apply"), ["--apply"]),
    ],
)
def test_options_that_would_be_passed_over_are_refused(
    region: World, flags: tuple[str, ...], options: list[str]
) -> None:
    assert refusal("dead-letters", region.region, *flags, exits=2).fields["options"] == options
    assert not Path("f").exists()
    assert chosen(region) == [0, 1]


@pytest.mark.parametrize(
    "flag", ["--since=today", "--until=1", "--partition=t", "--partition=t[x]"]
)
def test_what_can_not_be_read_is_wrong_usage(region: World, flag: str) -> None:
    refusal("dead-letters", region.region, flag, exits=2)


def test_an_export_has_every_byte_and_every_field(region: World) -> None:
    """B14: bytes that are no UTF-8 have no text."""
    region.sql(
        "UPDATE tidemark.dead_letters SET key = %s, value = %s, headers = %s WHERE partition = 0",
        (b"\xff\x00", "grün".encode(), '[{"key": "a", "value": null}]'),
    )
    told = tidemark("dead-letters", region.region, "--export", "out.jsonl").stdout
    assert "2 dead letters are in out.jsonl" in told
    first, second = lines("out.jsonl")
    assert base64.b64decode(first["key_base64"]) == b"\xff\x00"
    assert (first["key_text"], first["value_text"]) == (None, "grün")
    assert first["headers"] == [{"key": "a", "value": None}]
    assert (first["topic"], first["partition"], first["offset"]) == (region.topic, 0, 9)
    assert (second["partition"], second["reason"]) == (1, "INVALID_JSON")
    shown = answer("dead-letters", region.region)
    assert first.keys() == shown[0].keys()
    assert Path("out.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_export_takes_only_those_that_are_meant(region: World) -> None:
    found = answer(
        "dead-letters", region.region, "--partition", str(region.partition(1)),
        "--export", "out.jsonl",
    )  # fmt: skip
    assert found["dead_letters"] == len(lines("out.jsonl")) == 1
    answer("dead-letters", region.region, "--reason", "OUT_OF_RANGE", "--export", "none.jsonl")
    assert lines("none.jsonl") == []


@pytest.mark.long
def test_an_export_overwrites_nothing(region: World) -> None:
    Path("out.jsonl").write_text("mine")
    told = refusal("dead-letters", region.region, "--export", "out.jsonl", exits=2)
    assert (told.case, told.fields["file"]) == ("ExportFileUnwritable", "out.jsonl")
    assert "is not overwritten" in told.fields["cause"]
    assert Path("out.jsonl").read_text() == "mine"


@pytest.mark.long
def test_an_export_that_a_file_of_the_same_name_overtook_overwrites_nothing(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = kept_dead_letters.kept

    def beside(row: tuple[Any, ...]) -> kept_dead_letters.KeptDeadLetter:
        Path("out.jsonl").write_text("mine")
        return whole(row)

    monkeypatch.setattr(kept_dead_letters, "kept", beside)
    tidemark("dead-letters", region.region, "--export", "out.jsonl", exits=2)
    assert Path("out.jsonl").read_text() == "mine"
    assert [one.name for one in Path().iterdir() if "jsonl" in one.name] == ["out.jsonl"]


@pytest.mark.long
def test_an_export_with_another_count_is_refused(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lossy(cursor: Any) -> Iterator[tuple[Any, ...]]:
        cursor.execute("FETCH FORWARD 1 FROM dead_letters_export")
        yield from cursor.fetchall()

    monkeypatch.setattr(kept_dead_letters, "_fetched", lossy)
    told = refusal("dead-letters", region.region, "--export", "out.jsonl", exits=17)
    assert told == ("DeadLettersMiscounted", {"region": region.region, "came": 1, "counted": 2})
    assert not Path("out.jsonl").exists()


@pytest.mark.long
def test_a_folder_that_is_not_there_is_named(region: World) -> None:
    told = refusal("dead-letters", region.region, "--export", "away/out.jsonl", exits=2)
    assert (told.case, told.fields["file"]) == ("ExportFileUnwritable", "away/out.jsonl")
