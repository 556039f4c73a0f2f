"""The arguments of a Postgres client, from its connection."""

from tidemark.postgres.errors import CloudConnectionRefused, IamHostUnknown
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionIncomplete, ConnectionKeysRefused, IamUnreadable
from tidemark.tokens import clouds
from tidemark.tokens.callbacks import PASSWORD

TAKEN = (
    "application_name", "channel_binding", "connect_timeout", "gssdelegation", "gssencmode",
    "gsslib", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle",
    "keepalives_interval", "krbsrvname", "load_balance_hosts", "options", "passfile", "port",
    "require_auth", "requirepeer", "ssl_max_protocol_version", "ssl_min_protocol_version",
    "sslcert", "sslcertmode", "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslmode",
    "sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "target_session_attrs",
    "tcp_user_timeout",
)  # fmt: skip
"""Keys of the connection's extra that reach libpq; one that is dropped may weaken it."""

WITHOUT_MEANING = ("cursor", "sqlalchemy_scheme", "sqlalchemy_query")
"""Keys by which Airflow's own hook gives out results: nothing of ours follows from them."""

IAM = "iam"
"""Airflow's key: the password is a token of the cloud."""

OF_CLOUDS = ("aws_conn_id", "azure_conn_id")
"""Airflow's keys that name a connection to a cloud."""


def postgres_parameters(connection: Connection) -> dict[str, str | int]:
    """Arguments of `open_session`, with keepalives: a silent network must surface in a minute.

    They are psycopg2's, but for a callback that makes the password at each login. Of several hosts
    the primary is taken, unless the extra says otherwise.

    Raises:
        InvalidSettings: host or database is missing, or the extra has a key that is not taken.
    """
    for key in OF_CLOUDS:
        if key in connection.extra:
            raise CloudConnectionRefused(connection=connection.conn_id, key=key)
    known = (*TAKEN, *WITHOUT_MEANING, IAM, PASSWORD)
    if unknown := tuple(sorted({*connection.extra}.difference(known))):
        raise ConnectionKeysRefused(conn_id=connection.conn_id, keys=unknown, taken="libpq's keys")
    if not connection.host or not connection.schema:
        raise ConnectionIncomplete(
            conn_id=connection.conn_id,
            missing="schema (the database)" if connection.host else "host",
            remedy="set host and schema",
        )
    parameters: dict[str, str | int] = {
        "host": connection.host,
        "port": connection.port or 5432,
        "dbname": connection.schema,
        "connect_timeout": 10,
        "keepalives": 1,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
        "application_name": "tidemark",
    }
    parameters |= _login(connection)
    if "," in connection.host:
        parameters["target_session_attrs"] = "read-write"
    chosen = {key: connection.extra[key] for key in TAKEN if connection.extra.get(key)}
    return parameters | chosen


def _login(connection: Connection) -> dict[str, str]:
    """Who logs in, and by what: a password, or a callback that makes one."""
    secret = {PASSWORD: _callback(connection)}
    if not secret[PASSWORD]:
        secret = {"password": connection.password}
    given = {"user": connection.login, **secret}
    return {key: text for key, text in given.items() if text}


def _callback(connection: Connection) -> str | None:
    """The dotted path of what makes the password; None where the connection has it."""
    if path := connection.extra.get(PASSWORD):
        return str(path)
    if not _has_iam(connection):
        return None
    host = str(connection.extra.get("hostaddr") or connection.host)  # where the token really goes
    found = clouds.postgres_callback(host)
    if found is None:
        raise IamHostUnknown(connection=connection.conn_id, host=host)
    if not connection.login:
        raise ConnectionIncomplete(
            conn_id=connection.conn_id,
            missing="login",
            remedy="with iam it needs one: the role that the cloud's identity may be",
        )
    return found


def _has_iam(connection: Connection) -> bool:
    """Whether it is true; a URI spells it."""
    spelled = str(connection.extra.get(IAM, False)).lower()
    if spelled not in ("true", "false"):
        raise IamUnreadable(conn_id=connection.conn_id)
    return spelled == "true"
