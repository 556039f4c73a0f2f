"""What a check says of the logins of executors and readers (docs/roles.md).

A run needs the executors' login. It needs no reader: what one lacks is a doubt.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from confluent_kafka.admin import AclOperation

from tidemark.check._grants import READER, granting, missing_rights, named
from tidemark.check._kafka import NEEDED_TO_READ, described, refuse_missing
from tidemark.check.findings import Doubtful, Finding, State, Unknown, Wrong, finding
from tidemark.errors import InvalidSettings, Refused, TidemarkError
from tidemark.kafka.admin import Admin
from tidemark.kafka.config import kafka_config
from tidemark.kafka.description import DEAD, describe_group
from tidemark.kafka.errors import KafkaForbids
from tidemark.kafka.facts import Broker
from tidemark.ledger.migrate import SCHEMAS
from tidemark.model.plain import amount
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import autocommit, connect
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import ConnectionOf
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.catalog import find_relation, find_rights, find_table_rights
from tidemark.staging.target import Target

LEDGER, STAGING = SCHEMAS
TO_LOOK = {AclOperation.DESCRIBE}
"""On topics and group: a reader reads no record."""


def login_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """Of each of these logins that the file names, whether it may do its part."""
    look = _Logins(pipeline, connection_of)
    tasks, readers = pipeline.executors, pipeline.readers
    if tasks.warehouse:
        yield finding("Postgres login of executors", partial(look.stages, tasks.warehouse))
    if tasks.kafka:
        yield finding("Kafka login of executors", partial(look.reads, tasks.kafka))
    if readers.warehouse:
        yield _doubt("Postgres login of readers", partial(look.sees_ledger, readers.warehouse))
    if readers.kafka:
        yield _doubt("Kafka login of readers", partial(look.sees_lag, readers.kafka))


def _doubt(check: str, look: Callable[[], str]) -> Finding:
    found = finding(check, look)
    return replace(found, state=State.warned) if found.state is State.failed else found


@dataclass(frozen=True, slots=True)
class _Database:
    """Where a session is, and as whom."""

    user: str
    name: str
    oid: int
    """Alike on a primary and its standbys."""
    started: str
    """When the server did: another one on each."""


@dataclass(frozen=True, slots=True)
class _Logins:
    """Looks at one login each, and returns its fact."""

    pipeline: Pipeline
    connection_of: ConnectionOf

    def stages(self, conn_id: str) -> str:
        """Executors: the driver grants the rest to the role that their connection names."""
        found = self.connection_of(conn_id)
        with _asking(found) as cursor:
            at = _database(cursor)
            if found.login and at.user != found.login:
                raise Wrong(
                    f"{conn_id} names the login {found.login}, and Postgres knows it as {at.user}",
                    f"name {at.user} as the login of {conn_id}: the driver grants to that role",
                )
            self._refuse_elsewhere(conn_id, at, "oid", "started")
            _refuse_unusable(cursor, STAGING)
        with _asking(self.connection_of(self.pipeline.warehouse)) as worker:
            _doubt_endless_sessions(worker, at.user)
        return f"answers as {at.user} in {at.name}; may stage rows"

    def sees_ledger(self, conn_id: str) -> str:
        """Readers: a standby will do."""
        with _asking(self._readers(conn_id)) as cursor:
            at = _database(cursor)
            self._refuse_elsewhere(conn_id, at, "oid")
            _refuse_unusable(cursor, LEDGER)
            _refuse_unfit(cursor, at.user)
            for table in self.pipeline.tables.values():
                _doubt_uncounted(cursor, at.user, Target.parse(table))
        return f"answers as {at.user} in {at.name}; may read the ledger"

    def reads(self, conn_id: str) -> str:
        """Executors."""
        topics = self._topics()
        _Guarded.of(self.connection_of(conn_id)).refuse_forbidden(topics, NEEDED_TO_READ)
        return f"may read and describe {amount(len(topics), 'topic')}"

    def sees_lag(self, conn_id: str) -> str:
        """Readers."""
        found, topics = _Guarded.of(self._readers(conn_id)), self._topics()
        found.refuse_forbidden(topics, TO_LOOK)
        found.refuse_forbidden_group(self.pipeline.group)
        return f"may describe {amount(len(topics), 'topic')} and the group"

    def _readers(self, conn_id: str) -> Connection:
        """Airflow's pages may be the only ones that know it."""
        try:
            return self.connection_of(conn_id)
        except InvalidSettings as error:
            raise Unknown(f"connection {conn_id} is not known here") from error

    def _refuse_elsewhere(self, conn_id: str, at: _Database, *alike: str) -> None:
        """The login is where the worker is.

        Raises:
            Wrong: it is in another database. Unknown: that can't be told.
        """
        warehouse = self.pipeline.warehouse
        try:
            with _asking(self.connection_of(warehouse)) as cursor:
                own = _database(cursor)
        except TidemarkError as error:  # told where that connection itself is checked
            raise Unknown(f"not compared with {warehouse}, which can't be asked") from error
        if any(getattr(at, name) != getattr(own, name) for name in alike):
            raise Wrong(
                f"{conn_id} leads to another database than {warehouse}",
                f"let {conn_id} name the host, port and database of {warehouse}",
            )

    def _topics(self) -> dict[str, str]:
        """Ids by topic, as the worker sees them: others may not see that a topic is there."""
        try:
            broker = Broker(kafka_config(self.connection_of(self.pipeline.kafka.connection)))
            return broker.topic_ids([*broker.topics(self.pipeline.kafka.topics)])
        except TidemarkError as error:  # told where the topics themselves are checked
            raise Unknown("not asked: the topics are not known") from error


@contextmanager
def _asking(found: Connection) -> Iterator[Cursor]:
    engine = connect(postgres_parameters(found))
    try:
        with autocommit(engine) as cursor:
            yield cursor
    finally:
        engine.dispose()


def _database(cursor: Cursor) -> _Database:
    cursor.execute(query("database_identity"))
    return _Database(*(cursor.fetchone() or ()))


def _refuse_unusable(cursor: Cursor, schema: str) -> None:
    rights = find_rights(cursor, schema)
    if rights.usage is None:
        raise Unknown(f"schema {schema} is not there yet, so its grants can't be checked")
    if not rights.usage:
        raise Wrong(
            f"{rights.user} lacks USAGE on schema {schema}",
            f'GRANT USAGE ON SCHEMA {schema} TO "{rights.user}"',
        )


def _doubt_endless_sessions(worker: Cursor, executor: str) -> None:
    """A session of a task that hangs is ended by the worker, which must be a member of its role."""
    worker.execute(query("is_member_of"), {"role": executor})
    [(user, is_member)] = worker.fetchall()
    if not is_member:
        raise Doubtful(
            f"{user} may not end the sessions of {executor}: those of tasks that hang stay",
            f'GRANT "{executor}" TO "{user}"',
        )


def _refuse_unfit(cursor: Cursor, user: str) -> None:
    cursor.execute(query("ledger_is_there"))
    if cursor.fetchone() == (False,):
        raise Unknown("the ledger is not there yet, so its grants can't be checked")
    if missing := missing_rights(cursor, READER, ["r", "v"]):
        raise Wrong(f"{user} lacks {named(missing)}", granting(missing, user))


def _doubt_uncounted(cursor: Cursor, user: str, target: Target) -> None:
    relation = find_relation(cursor, target.schema, target.table)
    if relation is None:
        return
    is_usable = relation.schema_is_usable
    if not is_usable or not find_table_rights(cursor, target.schema, target.table).select:
        raise Doubtful(
            f"{user} lacks SELECT on {target}: `tidemark status --count` and a page's dry run of a"
            " rewind are refused",
            f'GRANT USAGE ON SCHEMA "{target.schema}" TO "{user}"; GRANT SELECT ON {target} TO'
            f' "{user}"',
        )


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Kafka, as one login sees it."""

    conn_id: str
    config: dict[str, str]

    @classmethod
    def of(cls, found: Connection) -> "_Guarded":
        return cls(found.conn_id, kafka_config(found))

    @property
    def principal(self) -> str:
        """To whom an ACL is granted."""
        user = self.config.get("sasl.username")
        return f"User:{user}" if user else f"the principal of {self.conn_id}"

    def refuse_forbidden(self, topics: Mapping[str, str], needed: Collection[AclOperation]) -> None:
        """Raises Wrong where one is not granted, or a topic of that name is another one."""
        try:
            found = described(Admin(self.config), sorted(topics))
        except KafkaForbids as error:
            raise self._unseen(error.what, needed) from error
        for topic, topic_id in topics.items():
            if (there := found[topic]) is None or str(there.topic_id) != topic_id:
                raise Wrong(
                    f"{self.conn_id} leads to another cluster: topic {topic} there is another one",
                    f"let {self.conn_id} name the brokers of the worker's connection",
                )
            granted = there.authorized_operations
            refuse_missing(f"topic {topic}", granted, needed, self.principal)

    def refuse_forbidden_group(self, group: str) -> None:
        """Raises Wrong where the login may not describe the group."""
        try:
            found = describe_group(self.config, group)
        except Refused as error:
            raise self._unseen(f"group {group}", TO_LOOK) from error
        if found != DEAD:
            granted = [AclOperation[name] for name in found.granted]
            refuse_missing(f"group {group}", granted, TO_LOOK, self.principal)

    def _unseen(self, what: str, needed: Collection[AclOperation]) -> Wrong:
        """Kafka says nothing else to who may not describe."""
        operations = " and ".join(sorted(one.name for one in needed))
        return Wrong(
            f"DESCRIBE on {what} is not granted",
            f"grant {operations} on {what} to {self.principal}",
        )
