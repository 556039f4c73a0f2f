"""Lineage: which topics a run reads and which tables it writes, as far as that is known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tidemark.ledger.ledger import Ledger
from tidemark.ledger.queries import Measured
from tidemark.model.facts import is_pattern
from tidemark.model.state import Run
from tidemark.postgres.transaction import autocommit
from tidemark.runs.region import ledger_of
from tidemark.runs.schemas import kept
from tidemark.settings.connections import Connection
from tidemark.settings.decode import KEY_PREFIX, DecodeSettings
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.catalog import find_columns
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class Dataset:
    """A topic or a table, named as OpenLineage names such."""

    namespace: str
    name: str
    columns: Mapping[str, str]
    """With their types; empty where they are not known."""
    count: int | None = None
    """Records read or rows written by the run; None: not counted."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a run reads and writes."""

    topics: tuple[Dataset, ...]
    tables: tuple[Dataset, ...]
    made_of: tuple[str, ...]
    """Columns of tables that hold the topics' fields of the same names, as they are; none are known
    behind a transform or a decoder of one's own."""


def lineage_of(
    pipeline: Pipeline, connections: Connections, run_id: str, *, counts: bool
) -> Lineage | None:
    """The lineage of an open run, with counts if it is done; None if it never opened.

    Raises:
        TidemarkError: the ledger can't be asked.
    """
    kafka, warehouse = connections[pipeline.kafka.connection], connections[pipeline.warehouse]
    with ledger_of(warehouse) as ledger:
        run, state = ledger.run_of(pipeline.region, run_id), ledger.region_state(pipeline.region)
        if run is None or state is None:
            return None
        opened = kept(pipeline, state) if state.epoch == run.epoch else pipeline
        fields = _fields(opened.decode)
        topics = tuple(_topics(kafka_namespace(kafka), ledger, run, fields, counts=counts))
        tables = tuple(_tables(warehouse, opened.tables, ledger, run, counts=counts))
    is_plain = opened.transform is None and not opened.decode.has_own
    found = {name for table in tables for name in table.columns} & fields.keys()
    return Lineage(topics, tables, tuple(sorted(found)) if is_plain else ())


def declared_lineage(pipeline: Pipeline, connections: Connections) -> Lineage:
    """What the pipeline file says, without a look at the ledger: topics that it names, and tables.

    Topics that a pattern stands for are not known, nor are columns of tables.
    """
    kafka, warehouse = connections[pipeline.kafka.connection], connections[pipeline.warehouse]
    names = (one for one in pipeline.kafka.topics if not is_pattern(one))
    fields, place = _fields(pipeline.decode), kafka_namespace(kafka)
    targets = (Target.parse(table, name) for name, table in pipeline.tables.items())
    return Lineage(
        topics=tuple(Dataset(place, topic, fields) for topic in sorted(names)),
        tables=tuple(
            Dataset(postgres_namespace(warehouse), _full(warehouse, one), {}) for one in targets
        ),
        made_of=(),
    )


def table_address(warehouse: Connection, table: str) -> str | None:
    """`postgres://host:port/database/schema/table`, as dbt, OpenLineage and Airflow write it.

    None where the connection names no host that others could mean, as a socket.
    """
    host = (warehouse.host or "").split(",")[0]
    if not host or host.startswith("/") or not warehouse.schema:
        return None
    target = Target.parse(table)
    path = (warehouse.schema, target.schema, target.table)
    return "/".join([postgres_namespace(warehouse), *(quote(one, safe="") for one in path)])


def _full(warehouse: Connection, target: Target) -> str:
    return f"{warehouse.schema}.{target.schema}.{target.table}"


def _fields(decode: DecodeSettings) -> dict[str, str]:
    """What is declared of a record's value and key, as the columns are called."""
    key = decode.key.declared if decode.key else {}
    return decode.declared | {f"{KEY_PREFIX}{name}": kind for name, kind in key.items()}


def _topics(
    place: str, ledger: Ledger, run: Run, fields: Mapping[str, str], *, counts: bool
) -> Iterator[Dataset]:
    read = Measured(ledger.engine).published_records(run.region, run.epoch) if counts else {}
    targets = ledger.target_offsets(run.region, run.epoch)
    for topic in sorted({where.topic for where in targets}):
        yield Dataset(place, topic, fields, read.get(topic, 0) if counts else None)


def _tables(
    warehouse: Connection, tables: Mapping[str, str], ledger: Ledger, run: Run, *, counts: bool
) -> Iterator[Dataset]:
    place = postgres_namespace(warehouse)
    moved = Measured(ledger.engine).published_rows(run.region, run.epoch) if counts else {}
    for name, table in tables.items():
        target = Target.parse(table, name)
        with autocommit(ledger.engine) as cursor:
            found = find_columns(cursor, target.schema, target.table)
        columns = {column.name: column.type_name for column in found}
        yield Dataset(
            place, _full(warehouse, target), columns, moved.get(name, 0) if counts else None
        )


def kafka_namespace(connection: Connection) -> str:
    """`kafka://host:port` of the first of its brokers."""
    first = str(connection.extra["bootstrap.servers"]).split(",")[0].strip()
    address = first.rpartition("://")[2]
    return f"kafka://{address if ':' in address else f'{address}:9092'}"


def postgres_namespace(connection: Connection) -> str:
    """`postgres://host:port` of the first of its servers."""
    host = (connection.host or "").split(",")[0]
    port = str(connection.extra.get("port") or connection.port or 5432).split(",")[0]
    return f"postgres://{host}:{port}"
