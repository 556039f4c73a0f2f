"""What a check says of the other logins: as whom Spark's tasks and who only looks log in."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

from confluent_kafka.admin import AclOperation

from tidemark.check._kafka import NEEDED_TO_READ, described, refuse_missing
from tidemark.check._postgres import missing_table_rights
from tidemark.check.findings import Finding, Unknown, Wrong, finding
from tidemark.errors import TidemarkError
from tidemark.kafka.admin import Admin
from tidemark.kafka.config import kafka_config
from tidemark.kafka.description import DEAD, describe_group
from tidemark.kafka.facts import Broker
from tidemark.ledger.migrate import SCHEMAS
from tidemark.model.plain import amount
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import autocommit, connect
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import ConnectionOf
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.catalog import find_rights

LEDGER, STAGING = SCHEMAS
TO_LOOK = {AclOperation.DESCRIBE}
"""Who looks reads no record, but in the output topic what was sent."""


def login_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """Of each login that the file names beside the worker's, whether it may do its part."""
    tasks, readers = pipeline.executors, pipeline.readers
    for who, conn_id, may in (
        ("executors", tasks.warehouse, _may_stage),
        ("readers", readers.warehouse, _may_look),
    ):
        if conn_id:
            look = partial(_postgres, pipeline, connection_of, conn_id, may)
            yield finding(f"Postgres login of {who}", look)
    if tasks.kafka:
        look = partial(_executors, pipeline, connection_of, tasks.kafka)
        yield finding("Kafka login of executors", look)
    if readers.kafka:
        look = partial(_readers, pipeline, connection_of, readers.kafka)
        yield finding("Kafka login of readers", look)


def _postgres(
    pipeline: Pipeline, connection_of: ConnectionOf, conn_id: str, may: Callable[[Cursor], str]
) -> str:
    with _asking(connection_of(conn_id)) as cursor:
        user, database, *place = _identity(cursor)
        if place != _place_of_worker(pipeline, connection_of):
            raise Wrong(
                f"{conn_id} leads to another database or server than {pipeline.warehouse}",
                f"let {conn_id} name the same host, port and database as {pipeline.warehouse}",
            )
        return f"answers as {user} in {database}; {may(cursor)}"


@contextmanager
def _asking(found: Connection) -> Iterator[Cursor]:
    engine = connect(postgres_parameters(found))
    try:
        with autocommit(engine) as cursor:
            yield cursor
    finally:
        engine.dispose()


def _identity(cursor: Cursor) -> list[object]:
    cursor.execute(query("database_identity"))
    return [*(cursor.fetchone() or ())]


def _place_of_worker(pipeline: Pipeline, connection_of: ConnectionOf) -> list[object]:
    try:
        with _asking(connection_of(pipeline.warehouse)) as cursor:
            return _identity(cursor)[2:]
    except TidemarkError as error:  # told where that connection itself is checked
        raise Unknown(f"not compared: {pipeline.warehouse} does not answer") from error


def _may_stage(cursor: Cursor) -> str:
    """The driver grants what else they need, batch by batch."""
    _refuse_unusable(cursor, STAGING)
    return "may stage rows"


def _may_look(cursor: Cursor) -> str:
    _refuse_unusable(cursor, LEDGER)
    if missing := missing_table_rights(cursor, ["SELECT"]):
        user = find_rights(cursor, LEDGER).user
        raise Wrong(
            f"{user} lacks SELECT on {', '.join(missing)}",
            f'GRANT SELECT ON ALL TABLES IN SCHEMA {LEDGER} TO "{user}"',
        )
    return "may read the ledger"


def _refuse_unusable(cursor: Cursor, schema: str) -> None:
    rights = find_rights(cursor, schema)
    if rights.usage is None:
        raise Unknown(f"schema {schema} is not there yet, so its grants can't be checked")
    if not rights.usage:
        raise Wrong(
            f"{rights.user} lacks USAGE on schema {schema}",
            f'GRANT USAGE ON SCHEMA {schema} TO "{rights.user}"',
        )


def _executors(pipeline: Pipeline, connection_of: ConnectionOf, conn_id: str) -> str:
    topics = _topics(pipeline, connection_of)
    _refuse_forbidden(Admin(kafka_config(connection_of(conn_id))), topics, NEEDED_TO_READ)
    return f"may read and describe {amount(len(topics), 'topic')}"


def _readers(pipeline: Pipeline, connection_of: ConnectionOf, conn_id: str) -> str:
    config, topics = kafka_config(connection_of(conn_id)), _topics(pipeline, connection_of)
    admin, sent_to = Admin(config), pipeline.sent_to
    _refuse_forbidden(admin, topics, TO_LOOK)
    _refuse_forbidden(admin, {*filter(None, (sent_to.rows, sent_to.dead_letters))}, NEEDED_TO_READ)
    group = describe_group(config, pipeline.group)
    if group != DEAD:
        granted = [AclOperation[name] for name in group.granted]
        refuse_missing(f"group {pipeline.group}", granted, TO_LOOK)
    return f"may describe {amount(len(topics), 'topic')} and the group"


def _topics(pipeline: Pipeline, connection_of: ConnectionOf) -> list[str]:
    """As the worker sees them: who may not describe one does not see that it is there."""
    try:
        config = kafka_config(connection_of(pipeline.kafka.connection))
        return [*Broker(config).topics(pipeline.kafka.topics)]
    except TidemarkError as error:  # told where the topics themselves are checked
        raise Unknown("not asked: the topics are not known") from error


def _refuse_forbidden(
    admin: Admin, topics: Collection[str], needed: Collection[AclOperation]
) -> None:
    for topic in sorted(topics):
        granted = described(admin, topic).authorized_operations
        refuse_missing(f"topic {topic}", granted, needed)
