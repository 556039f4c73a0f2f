"""What doorbells and sensors look at: ledgers and Kafkas, each for all regions at once."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import Engine, event

from tidemark.airflow._shared import CantLook, Pause, SharedClient
from tidemark.errors import TidemarkError, Unreachable
from tidemark.kafka.config import kafka_config
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.ledger.queries import Completeness, LedgerQueries
from tidemark.ledger.starts import Awaited, StartsLookup
from tidemark.model.facts import Facts
from tidemark.model.offsets import TopicPartition
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.session import configure
from tidemark.postgres.transaction import connect
from tidemark.runs.errors import RegionInOtherLedger
from tidemark.settings.connections import Connection
from tidemark.views.status import refuse_offsets_of

log = logging.getLogger(__name__)

SAY_SECONDS = 60.0
"""Doorbells that have nothing new to say tell the ledger so often that they look."""

STATEMENT_SECONDS = 10
"""How long a look waits for a locked table."""

AGAIN_SECONDS = 10.0
"""A topic that can't be asked for is asked for again then, and later each time."""

PATIENCE = 10.0
"""How long a look waits for a silent Kafka."""

Topics = tuple[str, ...]
Found = TypeVar("Found")


class _SharedWarehouse(SharedClient[str, Found]):
    """A warehouse: all regions by one statement, in one session."""

    def made(self, connection: Connection) -> Engine:
        """A small pool, of which one session is used."""
        engine = connect(postgres_parameters(connection))

        @event.listens_for(engine, "connect")
        def _limit(session: Any, _: object) -> None:
            with session.cursor() as cursor:
                limit = {"statement_timeout": f"{STATEMENT_SECONDS}s"}
                configure(cursor, limit, is_local=False)

        return engine

    def ended(self, client: Engine) -> None:
        """Its session is closed."""
        client.dispose()


class SharedCompleteness(_SharedWarehouse[Completeness]):
    """Up to when regions are complete."""

    def asked(self, client: Engine, keys: Iterable[str]) -> dict[str, Completeness | CantLook]:
        """Of those that the ledger knows."""
        return {**LedgerQueries(client).completeness(list(keys))}


class SharedLedger(_SharedWarehouse[Awaited]):
    """Where regions stand that wait for a run."""

    def __init__(self, conn_id: str) -> None:
        super().__init__(conn_id)
        self._says: dict[str, CantLook | None] = {}
        self._said: dict[str, CantLook | None] = {}
        self._say_at = float("-inf")
        self._refusal = ""

    def say(self, region: str, problem: CantLook | None) -> None:
        """The next look tells the ledger whether the region's doorbell can look."""
        self._says[region] = problem

    def other(
        self, region: str, group: Callable[[], Group], partitions: Iterable[TopicPartition]
    ) -> CantLook | None:
        """Why this is not the ledger that a group's offsets are of; in a thread.

        None also where that can't be told: a ring in vain costs little.
        """
        engine = self.client
        if engine is None:
            return None
        try:
            with closing(group()) as asked:
                ledger = LedgerQueries(engine)
                refuse_offsets_of(region, asked, partitions, ledger, self.conn_id)
        except RegionInOtherLedger as error:
            return CantLook.of(error)
        except Exception as error:
            log.info("region %s: its group's offsets are unknown: %s", region, type(error).__name__)
        return None

    def asked(self, client: Engine, keys: Iterable[str]) -> dict[str, Awaited | CantLook]:
        """Where the regions stand."""
        lookup = StartsLookup(client)
        found = lookup.awaited(list(keys))
        self._tell(lookup)
        return {**found}

    def _tell(self, lookup: StartsLookup) -> None:
        """What is new at once, the rest now and then. A login that may only read tells nothing."""
        says = {region: one for region, one in dict(self._says).items() if region in self.keys}
        is_new = _codes(says) != _codes(self._said)
        is_due = self.clock() >= self._say_at
        if not says or not (is_due or is_new) or not lookup.are_kept():
            return
        try:
            lookup.say_doorbells(
                {r: (one.code, one.case) if one else None for r, one in says.items()}
            )
            self._refusal = ""
        except TidemarkError as error:
            if self._refusal != (text := str(error)):
                log.warning("the ledger does not know whether doorbells can look: %s", text)
            self._refusal = text
        self._said, self._say_at = says, self.clock() + SAY_SECONDS


def _codes(says: Mapping[str, CantLook | None]) -> dict[str, str | None]:
    return {region: one.code if one else None for region, one in says.items()}


class SharedKafka(SharedClient[Topics, Facts]):
    """A Kafka: the topics of all regions by one request, as long as none of them is missing."""

    def __init__(self, conn_id: str) -> None:
        super().__init__(conn_id)
        self._failed: dict[Topics, tuple[CantLook, Pause]] = {}
        self._config: Mapping[str, str] = {}

    def group(self, group_id: str) -> Group:
        """A group's offsets, by a client of its own, which never joins."""
        return Group(self._config, group_id)

    def made(self, connection: Connection) -> Broker:
        """A client without a group."""
        self._config = kafka_config(connection)
        return Broker(self._config)

    def asked(self, client: Broker, keys: Iterable[Topics]) -> dict[Topics, Facts | CantLook]:
        """Where the topics begin and end."""
        client.ping(PATIENCE)
        failed, now = self._failed, self.clock()
        self._failed = {key: one for key, one in failed.items() if key in self.keys}
        paused = {key: why for key, (why, pause) in self._failed.items() if pause.is_on(now)}
        asked = [key for key in keys if key not in paused]
        try:
            found: Mapping[Topics, Facts | CantLook] = _at_once(client, asked)
        except TidemarkError:
            found = {key: self._one(client, key) for key in asked}
        return {**paused, **found}

    def _one(self, broker: Broker, key: Topics) -> Facts | CantLook:
        """What is missing keeps nobody else waiting: it is asked for after a pause."""
        try:
            facts = broker.facts(broker.topics(key))
        except TidemarkError as error:
            why, pause = CantLook.of(error), self._failed.get(key, (None, Pause()))[1]
            pause.longer(self.clock(), AGAIN_SECONDS)
            self._failed[key] = why, pause
            if isinstance(error, Unreachable):
                broker.ping(PATIENCE)  # is it the topic, or Kafka?
            return why
        self._failed.pop(key, None)
        return facts


def _at_once(broker: Broker, keys: list[Topics]) -> dict[Topics, Facts]:
    topics = {key: broker.topics(key) for key in keys}
    whole = broker.facts(sorted({topic for one in topics.values() for topic in one}))
    return {key: _of(whole, one) for key, one in topics.items()}


def _of(facts: Facts, topics: Topics) -> Facts:
    wanted = frozenset(topics)
    return replace(
        facts,
        topic_ids={topic: found for topic, found in facts.topic_ids.items() if topic in wanted},
        log_starts={tp: at for tp, at in facts.log_starts.items() if tp.topic in wanted},
        ends={tp: at for tp, at in facts.ends.items() if tp.topic in wanted},
    )
