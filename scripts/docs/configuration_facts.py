"""The parts of docs/configuration.md that come from constants: types, columns, connections."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.docs.markdown_pieces import assigned, filled, spelled, table

from tidemark.decode import registry
from tidemark.decode.port import MAX_VALUE_BYTES
from tidemark.kafka import admin, config
from tidemark.model import membership, table_name
from tidemark.postgres import parameters, session, transaction
from tidemark.runs import _watch, retire
from tidemark.settings import connections, field_types, fields
from tidemark.settings.decode import Metadata
from tidemark.settings.errors import ALLOWED
from tidemark.spark import _postgres as task_sessions
from tidemark.spark import cluster
from tidemark.spark.records import row_schema
from tidemark.staging import refused, tables
from tidemark.staging.columns import columns_of

SESSION = Path(__file__).resolve().parents[2] / "plugins" / "tidemark" / "spark" / "session.py"

JSON_OF_TYPES: dict[str, tuple[str, str]] = {
    "boolean": ("true", "`true` or `false`"),
    "smallint": ("-32768", "a whole number of 16 bits"),
    "int": ("2147483647", "a whole number of 32 bits"),
    "bigint": ("9223372036854775807", "a whole number of 64 bits"),
    "float": ("0.5", "a number within the range of 32 bits"),
    "double": ("1e300", "a number"),
    "decimal(p,s)": ('"12.34"', "a number, or the same as text, which keeps every digit"),
    "string": ('"text"', "text without U+0000, which Postgres can't store"),
    "binary": ('"AAEC"', "base64"),
    "date": ('"2024-02-29"', "`YYYY-MM-DD`, years 1 to 9999"),
    "timestamp": (
        '"2024-02-29T12:30:00.123456Z"',
        "a date, or date and time of up to microseconds, `t` and `z` also in lower case;"
        " UTC unless it has an offset; no leap second (`:60`)",
    ),
    "array<type>": ("[1, null]", "an array"),
    "struct<name:type,...>": ('{"a": 1}', "an object"),
}
"""Type as the pipeline file spells it: a JSON value that it reads, and what it reads in words."""

SAMPLES = {
    "decimal(p,s)": "decimal(10,2)",
    "array<type>": "array<int>",
    "struct<name:type,...>": "struct<a:int>",
}
"""A concrete type where the name has a parameter."""


def parts() -> Iterator[str]:
    """The sections, in their order."""
    yield _types()
    yield _columns()
    yield _kafka()
    yield _postgres()
    yield _registry()
    yield _spark()
    yield _timeouts()


def _types() -> str:
    rows = []
    for name in ALLOWED.split(", "):
        example, words = JSON_OF_TYPES[name]
        schema = fields.arrow_schema({"f": SAMPLES.get(name, name)})
        [column] = columns_of(schema)
        stored = column.postgres_type.replace("10,2", "p,s").replace("integer[]", "type[]")
        rows.append((f"`{name}`", words, f"`{example}`", f"`{stored}`"))
    types = table(("type", "JSON that it reads", "for example", "column in Postgres"), rows)
    limits = filled(
        f"""An array of structs, like every other nesting that Postgres has no type for, becomes
        `jsonb`. A record's value has at most {MAX_VALUE_BYTES >> 20} MiB. Field names have at most
        {table_name.NAME_BYTES} bytes and do not begin with `{field_types.RESERVED_PREFIX}`."""
    )
    return f"""\
## Types of fields

The names are those of Spark SQL, in any case. Every field may be null: a missing field is null,
an undeclared one is ignored unless `on_new_field` says otherwise (but for a number beyond the range
of 64 bits, such as `1e400`, which is `OUT_OF_RANGE`). A record that has none of them is
[another one](dead-letters.md#records-of-another-kind). A value that does not fit makes its record a
[dead letter](dead-letters.md#dead-letters), never a guess: text is not read as a number, a number
not as text, `1.0` not as a whole number. One text is read as a boolean: that of `__deleted`, in
[flattened events](formats-debezium.md#flattened-events).

{types}
{limits}
"""


def _columns() -> str:
    asked = tuple(Metadata)
    from_value = 1
    names = {f"kafka_{name}": name for name in asked}
    rows = [
        (
            f"`{column.name}`",
            f"`{column.type}`",
            f"with `metadata: [{names[column.name]}]`" if column.name in names else "always",
        )
        for column in list(row_schema(fields.arrow_schema({"f": "int"}), asked))[from_value:]
    ]
    return f"""\
## Columns that a transform is given

First the declared fields in their order (format `raw`: one column `value` of bytes); with
`envelope: debezium` `deleted` and the `source_…` columns; then the `key_…` columns of
`decode.key`; then:

{table(("column", "Arrow type", "when"), rows)}
A transform that keeps `kafka_topic`, `kafka_partition` and `kafka_offset` stores with every row
where it came from. It may not make a column `batch_seq`: Tidemark adds that one.

An [Arrow transform](transforms.md#an-arrow-transform) is given the declared fields as `bool`,
`int16` to `int64`, `float`, `double`, `decimal128`, `string`, `binary`, `date32`,
`timestamp[us, tz=UTC]`, `list` and `struct`. It may return these, `int8`, `map`, other zones, and
the large and view types of texts and bytes.
"""


def _kafka() -> str:
    own = config.member_settings(membership.Membership())
    rows = [
        (f"`{key}`", _set_by(own, key), _set_by(config.READER_SETTINGS, key))
        for key in sorted(config.OVERRIDDEN)
    ]
    defaults = {k: v for k, v in config.READER_DEFAULTS.items() if k != "group.id"}
    paragraph = filled(
        f"""The consumer group is `kafka.group`, the transactional id of the mirror is `tidemark-`
        with the group's name. Readers begin with the following, and a connection may set them
        otherwise: {assigned(defaults)}; how much they fetch at once (`fetch.message.max.bytes`,
        `queued.min.messages`) follows from what they are to read. Members begin with
        {assigned(config.MEMBER_DEFAULTS)}. What a member sets for `group.protocol`,
        `partition.assignment.strategy` and the sessions follows [kafka](#kafka); the table shows
        its defaults."""
    )
    taken = ", ".join(f"`{key}`" for key in sorted(config.TAKEN))
    refused = filled(
        f"""Of the others these are taken: {taken}. Any other key is refused by name, for some
        load a library, run a command or send a file: `plugin.library.paths`, `ssl.providers`,
        `sasl.kerberos.kinit.cmd`, `sasl.oauthbearer.assertion.file`, Airflow's `oauth_cb`.
        `OAUTHBEARER` needs `sasl.oauthbearer.method=oidc`: tokens that Airflow's own hook makes,
        for Amazon MSK by IAM and for Google's Kafka, are not made here. A
        Kerberos principal or keytab may have letters, digits and `. / @ : _ -` alone, because
        librdkafka puts it into a command."""
    )
    return f"""\
## The Kafka connection

Connection type `kafka`; its `extra` is a librdkafka configuration with at least
`bootstrap.servers`, and SASL and TLS keys as librdkafka names them. Which rights the login needs
stands in [administration.md](administration.md#kafka-acls).

Tidemark sets these keys itself; what the connection says about them is not used. A dash means
that the key is left to librdkafka or to the client that needs it.

{table(("key", "group member (driver)", "reader (task)"), rows)}
{paragraph}

{refused}
"""


def _set_by(settings: Mapping[str, object], key: str) -> str:
    return f"`{spelled(settings[key])}`" if key in settings else "–"


def _postgres() -> str:
    connection = connections.Connection("x", "postgres", host="h", schema="d")
    found = parameters.postgres_parameters(connection)
    fixed = {key: found[key] for key in found if key not in ("host", "dbname")}
    used = ", ".join(f"`{key}`" for key in parameters.TAKEN)
    needed = {key: " or ".join(values) for key, values in session.NEEDED.items()}
    paragraph = filled(
        f"""Connection type `postgres`: host, port, login, password, and as schema the database. Of
        its `extra` these keys of libpq are used: {used}. Others are refused by name, those of a
        cloud's tokens (`iam`) too: a key that is dropped could weaken the connection.
        Several servers, of which one is the primary, are
        named as libpq names them: host `a,b`, and a `port` for all or, as text in the connection or
        in its `extra`, `5432,5433`; then `target_session_attrs=read-write` finds the primary unless
        the extra says otherwise. Where the connection says nothing Tidemark sets
        {assigned(fixed)}. Each session sets {assigned(session.SETTINGS)} for itself, whatever the
        server, the database or the role has; what the server does not know is left out. So no
        time-out of people's sessions ends a publish, no isolation fails a write, and a value has
        one text; one whose client's machine is gone ends, and what it held is free. Defaults and
        triggers of your tables see these settings too: `current_date` is the day in UTC. Where
        {assigned(needed)} does not hold, a session is refused: only a superuser sets these.
        `tidemark check` names what role and database set and Tidemark does not heed. Sessions of
        Spark's tasks, which stage rows, set
        {assigned(task_sessions.TASK_TIMEOUTS)} instead: a statement
        is one block of rows, so no time-out of the role ends a long COPY, and an executor that has
        stopped holds no table for ever. Those of ledger transactions stand under
        [Time-outs](#time-outs). The rights that the login needs stand in
        [administration.md](administration.md#postgres-grants)."""
    )
    return f"## The Postgres connection\n\n{paragraph}\n"


def _registry() -> str:
    used = ", ".join(f"`{key}`" for key in registry.TAKEN)
    paragraph = filled(
        f"""Connection type `http`, for [avro](formats-avro.md) and
        [protobuf](formats-protobuf.md): host (which may hold the scheme),
        port, `http` or `https` as schema, login and password. Of its `extra` these keys are used,
        named as confluent-kafka's registry client names them: {used}; others are refused. Where it
        says nothing Tidemark sets {assigned(registry.DEFAULTS)}. A token needs only
        `bearer.auth.token`."""
    )
    return f"## The registry connection\n\n{paragraph}\n"


def _spark() -> str:
    found = {**_constant(SESSION, "DEFAULTS"), **_constant(SESSION, "FIXED")}
    fixed = _constant(SESSION, "FIXED")
    defaults = {key: value for key, value in found.items() if key not in fixed}
    paragraph = filled(
        f"""Where you set nothing (`spark_conf` of the DAG factory, `spark-defaults.conf`), a driver
        sets {assigned(defaults)}. For every master but local it sets
        {assigned(cluster.SECURE)} too. It always sets {assigned(fixed)}."""
    )
    options = table(
        ("key", "meaning"),
        [
            ("`password`", "`spark.authenticate.secret` of a standalone cluster"),
            ("extra `python`", "the Python of the executors, if theirs stands elsewhere"),
            ("extra `environment`", "an [archive for the executors](clusters.md#python-packages)"),
        ],
    )
    return f"""\
## The Spark connection

Connection type `spark`; host is the master: `local[2]`, `local[*]`, `spark://host:port`, `yarn` or
`k8s://https://host:port`, in client mode. [Clusters](clusters.md) says what each of them needs, and
why cluster deploy mode is refused.

{options}
{paragraph}
"""


def _constant(file: Path, name: str) -> dict[str, str]:
    """A constant of a module that would start Spark's library if it were imported."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return dict(ast.literal_eval(node.value))
    raise LookupError(f"{file} has no constant {name}")


def _said(setting: str) -> str:
    return f"`{task_sessions.TASK_TIMEOUTS[setting]}`"


def _timeouts() -> str:
    own = parameters.postgres_parameters(connections.Connection("x", "p", host="h", schema="d"))
    lock, statement, idle = transaction.TIMEOUTS_MS.values()
    rows = [
        ("`lock_timeout` of a ledger transaction", _seconds(lock / 1000)),
        ("`statement_timeout` of a ledger transaction", _seconds(statement / 1000)),
        (
            "the same of a rewind, a drop and a migration",
            _seconds(transaction.timeouts_of("rewind")["statement_timeout"] / 1000),
        ),
        (
            "`idle_in_transaction_session_timeout`: a stopped holder of the region lock goes",
            _seconds(idle / 1000),
        ),
        ("connecting to Postgres", _seconds(own["connect_timeout"])),
        ("until a silent Postgres is noticed", _seconds(_silence(own))),
        ("a task's statement: one block of rows", _said("statement_timeout")),
        ("a task's session waits for a lock", _said("lock_timeout")),
        (
            "a task waits for its source or its transform with rows staged and not committed",
            _said("idle_in_transaction_session_timeout"),
        ),
        ("dropping old staging tables waits for a lock", _seconds(tables.DROP_WAIT_MS / 1000)),
        (
            "close prunes old checkpoints; the next close continues",
            _seconds(retire.TIDYING_SECONDS),
        ),
        (
            "a step of that waits for a lock, at most",
            _seconds(transaction.timeouts_of("prune")["lock_timeout"] / 1000),
        ),
        (
            "the search in one batch for rows that the target refuses",
            _seconds(refused.SEARCH_SECONDS),
        ),
        ("a question to Kafka", _seconds(admin.SECONDS)),
        ("Kafka misses a killed driver", "`kafka.session_timeout_seconds`"),
        ("a driver looks whether it is fenced, every", _seconds(_watch.WATCH_SECONDS)),
        (
            "a read without progress fails, and a batch that nobody works on",
            "`no_progress_seconds`",
        ),
    ]
    return f"""\
## Time-outs

{table(("what", "how long"), rows)}
Airflow's own are those of the DAG factory: [operating.md](operating.md#what-airflow-does).
"""


def _silence(parameters: Mapping[str, Any]) -> int:
    probes = parameters["keepalives_interval"] * parameters["keepalives_count"]
    return int(parameters["keepalives_idle"] + probes)


def _seconds(seconds: float | str) -> str:
    return f"{float(seconds):g} s"
