"""B12, B20: columns from the newest schema of a registry, taken by an open and kept with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import PIPELINE, answer, settle_in, tidemark
from tests.support.failpoint import failpoint
from tests.support.registered import RegisteredWorld, silent
from tests.support.registry import KnownRegistry, registry
from tests.support.world import World, dump
from tests.unit.test_avro import record

from tidemark.decode.errors import RegistrySilent, SubjectNotKnown
from tidemark.decode.registry import Registry, Written
from tidemark.failpoints import FailpointHit
from tidemark.model.overrides import ACCEPT_CHANGES
from tidemark.protocol.errors import ChangedSinceCheckpoint, SettingDiffers
from tidemark.runs.errors import FieldsWithoutType
from tidemark.runs.fit import with_columns_in_use
from tidemark.staging.errors import TargetDoesNotFit
from tidemark_local.stack import LocalStack

ID, NAME = ("id", "long"), ("name", ["null", "string"])
EMAIL = ("email", ["null", "string"])


@pytest.fixture
def known() -> Iterator[KnownRegistry]:
    with registry() as found:
        yield found


@pytest.fixture
def region(world: World, known: KnownRegistry) -> RegisteredWorld:
    return RegisteredWorld(world.kafka, world.warehouse, world.topic, world.region, known=known)


@pytest.fixture(params=["avro", "protobuf"])
def of_format(request: pytest.FixtureRequest, region: RegisteredWorld) -> RegisteredWorld:
    """The region with records of each format."""
    region.decode["format"] = request.param
    return region


@pytest.fixture(
    params=[
        ("stand-in", "avro"),
        ("Apicurio", "protobuf"),
        pytest.param(("stand-in", "protobuf"), marks=pytest.mark.long),
        pytest.param(("Apicurio", "avro"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def either(request: pytest.FixtureRequest, world: World) -> RegisteredWorld:
    """The region with the stand-in, and with a real registry; with records of each format."""
    kind, format_name = request.param
    if kind == "Apicurio":
        stack: LocalStack = request.getfixturevalue("stack")
        stack.up(["registry"])
        found = KnownRegistry(stack.registry.url)
    else:
        found = request.getfixturevalue("known")
    either = RegisteredWorld(world.kafka, world.warehouse, world.topic, world.region, known=found)
    either.decode["format"] = format_name
    return either


def rows(region: RegisteredWorld, names: str = "id, name") -> list[tuple[Any, ...]]:
    return region.sql(f"SELECT {names} FROM public.records ORDER BY id")


@contextmanager
def unasked() -> Iterator[None]:
    """Nobody asks for a newest schema: records name those that they need by their ids."""

    def latest(*_: object) -> None:
        raise AssertionError("only an open asks for the newest schema")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Registry, "latest", latest)
        yield


def test_the_columns_are_those_of_the_newest_schema_when_the_run_opened(
    either: RegisteredWorld,
) -> None:
    """B12: a member that starts later and `verify` know them, whatever came since."""
    region = either
    region.write({"id": 1}, ID)
    region.write({"id": 2, "name": "a"}, NAME, ID)
    region.open()
    region.write({"id": "x", "email": None}, ("id", "string"), EMAIL)
    with unasked():
        region.drain()
        region.close()
        assert region.columns() == [("name", "text"), ("id", "bigint")]
        assert rows(region) == [(1, None), (2, "a")]
        assert region.verified().wrong == 0
        found = with_columns_in_use(region.pipeline, region.connections)
        assert found.decode.declared == {"id": "bigint", "name": "string"}
    assert rows(region) == [(1, None), (2, "a")]
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        region.open("next")
    assert refused.value.changes == (
        SettingDiffers("decode.schema.id", "bigint", "string"),
        SettingDiffers("decode.schema.name", "string", None),
    )


@pytest.mark.long
def test_a_registry_that_is_away_opens_nothing_and_loses_nothing(
    of_format: RegisteredWorld,
) -> None:
    """B12: the open fails, before it makes anything; a member that has its columns needs none."""
    region = of_format
    with pytest.raises(SubjectNotKnown) as unknown:
        region.open()
    assert unknown.value.subject == region.subject
    region.write({"id": 1}, ID)
    with silent(region.known), pytest.raises(RegistrySilent):
        region.open()
    assert region.sql("SELECT region FROM tidemark.regions") == []
    region.run()
    before = dump(region.warehouse)
    with silent(region.known), pytest.raises(RegistrySilent):
        region.open("next")
    assert dump(region.warehouse) == before


@pytest.mark.long
def test_new_fields_are_passed_over_or_refused_by_the_open(region: RegisteredWorld) -> None:
    """B20: nothing of them is taken in silence."""
    region.write({"id": 1}, ID)
    region.run()
    region.write({"id": 2, "email": "e"}, ID, EMAIL)
    assert region.open("second").remarks == (
        f"decode: {region.subject} version 2 has email, passed over",
    )
    region.drain("second")
    region.close("second")
    assert region.columns() == [("id", "bigint")]
    assert region.verified().wrong == 0
    region.decode["on_new_field"] = "refuse"
    with pytest.raises(ChangedSinceCheckpoint) as changed:
        region.open("third")
    assert SettingDiffers("decode.schema.email", None, "string") in changed.value.changes
    region.overrides, region.target["on_new_column"] = (ACCEPT_CHANGES,), "add"
    region.write({"id": 3, "email": "f"}, ID, EMAIL)
    region.run("third")
    assert rows(region, "id, email") == [(1, None), (2, None), (3, "f")]


def test_a_new_field_is_a_new_column_by_the_open(either: RegisteredWorld) -> None:
    """B20: in the open's transaction, with a row in the ledger; older rows have null in it."""
    region = either
    region.decode["on_new_field"], region.target["on_new_column"] = "add", "add"
    region.write({"id": 1, "name": "a"}, NAME, ID)
    region.run()
    region.write({"id": 2, "email": "e", "name": None}, ID, EMAIL, NAME)
    told = region.open("second").remarks
    assert told == (f"decode: {region.subject} version 2 has email string, taken as new columns",)
    assert region.columns() == [("name", "text"), ("id", "bigint"), ("email", "text")]
    assert region.sql("SELECT kind, requested_by, details FROM tidemark.actions") == [
        ("add_columns", "an open", {'"public"."records"': {"email": "text"}})
    ]
    region.drain("second")
    region.close("second")
    assert rows(region, "id, name, email") == [(1, "a", None), (2, None, "e")]
    assert region.verified().wrong == 0
    assert region.open("third").remarks == ()
    region.reset(to=1)
    region.run("fourth")
    assert rows(region, "id, name, email") == [(1, "a", None), (2, None, "e")]
    assert region.verified().wrong == 0


def test_what_the_table_does_not_take_is_not_kept(region: RegisteredWorld) -> None:
    """B20: the open stands with the column, or not at all; a changed type is never taken along."""
    region.decode["on_new_field"] = "add"
    region.write({"id": 1}, ID)
    region.run()
    region.write({"id": 2, "email": "e"}, ID, EMAIL)
    before = dump(region.warehouse)
    with pytest.raises(TargetDoesNotFit) as unfit:
        region.open("second")
    assert [one.actions for one in unfit.value.differences] == [('ADD COLUMN "email" text',)]
    region.target["on_new_column"] = "add"
    region.sql("ALTER TABLE public.records ADD COLUMN email bigint")
    before = dump(region.warehouse)
    with pytest.raises(TargetDoesNotFit) as unfit:
        region.open("second")
    changes = [('ALTER COLUMN "email" TYPE text',)]
    assert [one.actions for one in unfit.value.differences] == changes
    region.write({"id": "3", "name": "n"}, ("id", "string"), NAME)
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        region.open("second")
    assert refused.value.changes == (SettingDiffers("decode.schema.id", "bigint", "string"),)
    assert dump(region.warehouse) == before


def test_an_open_that_dies_leaves_the_table_as_it_was(region: RegisteredWorld) -> None:
    """B20: the column and what the rows are made with come by one COMMIT."""
    region.decode["on_new_field"], region.target["on_new_column"] = "add", "add"
    region.write({"id": 1}, ID)
    region.run()
    region.write({"id": 2, "email": "e"}, ID, EMAIL)
    before = dump(region.warehouse)
    with failpoint("open.inside"), pytest.raises(FailpointHit):
        region.open("second")
    assert region.columns() == [("id", "bigint")]
    assert dump(region.warehouse) | {"sequences": before["sequences"]} == before
    region.run("second")
    assert rows(region, "id, email") == [(1, None), (2, "e")]


def test_where_a_transform_makes_the_rows_a_member_adds_the_column(
    region: RegisteredWorld,
) -> None:
    """B20: an open runs no user's code: it takes the field, and the table gets it from a driver."""
    region.settings["transform"] = (
        "no_such_module:transform"  # which the tests' executor leaves out
    )
    region.decode["on_new_field"], region.target["on_new_column"] = "add", "add"
    region.write({"id": 1}, ID)
    region.run()
    region.write({"id": 2, "email": "e"}, ID, EMAIL)
    region.open("second")
    assert region.columns() == [("id", "bigint")]
    region.drain("second")
    assert rows(region, "id, email") == [(1, None), (2, "e")]
    assert region.sql("SELECT requested_by FROM tidemark.actions") == [("a driver",)]


@pytest.mark.long
def test_what_no_type_holds_whole_must_be_declared(region: RegisteredWorld) -> None:
    """B12: refused by a first open; passed over where new fields are."""
    odd = ("odd", ["null", "int", "string"])
    deep: Any = "int"
    for depth in range(6):
        deep = record(("x", deep), ("y", "int"), name=f"D{depth}")
    region.known.register(region.subject, record(ID, odd, ("deep", deep)))
    with pytest.raises(FieldsWithoutType) as unfit:
        region.open()
    assert list(unfit.value.names) == ["odd", "deep"]
    region.write({"id": 1}, ID)
    region.run()
    region.known.register(region.subject, record(ID, odd))
    assert "version 3 has odd, passed over" in region.open("next").remarks[0]


def test_a_field_that_comes_while_a_run_opens_is_of_the_next_run(region: RegisteredWorld) -> None:
    """B20: the registry is asked when Kafka's ends are known; what it tells holds for the run."""
    region.decode["on_new_field"] = "refuse"
    region.write({"id": 1}, ID)
    region.run()
    asked = Registry.latest

    def meanwhile(self: Registry, subject: str, form: str | None) -> tuple[int, Written]:
        found = asked(self, subject, form)
        region.write({"id": 2, "email": "e"}, ID, EMAIL)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Registry, "latest", meanwhile)
        region.run("second")
    assert region.dead_letters() == []
    assert rows(region, "id") == [(1,)]


@pytest.mark.long
def test_values_and_keys_by_their_subjects_in_every_command(
    region: RegisteredWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: checked and shown before a first run, then proven by what the ledger keeps."""
    region.known.register("the-key", record(("k", "string"), name="K"))
    key = {"format": "avro", "registry": "tidemark_registry", "schema": "registry"}
    region.decode |= {"key": key | {"subject": "the-key"}}
    settle_in(region, tmp_path, monkeypatch)
    region.write({"id": 1, "name": "a"}, ID, NAME)
    checks = {one["check"]: one for one in answer("check", PIPELINE)["checks"]}
    assert checks["decode"]["fact"].startswith("avro: 3 columns")
    assert "key_k" in tidemark("preview", PIPELINE).stdout
    answer("run", PIPELINE)
    region.known.register(region.subject, record(ID))
    assert answer("verify", PIPELINE)["clean"]
    assert "name" in tidemark("preview", PIPELINE).stdout
    checks = {one["check"]: one for one in answer("check", PIPELINE, exits=1)["checks"]}
    told = checks[f"region {region.region}"]["fact"]
    assert "decode.schema.name was 'string' and is None" in told
    assert checks["decode"]["fact"].startswith("avro: 3 columns")
    answer("run", PIPELINE, "--accept-changes")
    assert region.sql("SELECT key_k, id, name FROM public.records") == [(None, 1, "a")]
