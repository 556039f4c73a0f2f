"""The arguments of a Postgres client, from its connection."""

from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionIncomplete, ConnectionKeysRefused

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


def postgres_parameters(connection: Connection) -> dict[str, str | int]:
    """Arguments of psycopg2.connect, with keepalives: a silent network must surface in a minute.

    Of several hosts the primary is taken, unless the extra says otherwise.

    Raises:
        InvalidSettings: host or database is missing, or the extra has a key that is not taken.
    """
    if unknown := tuple(sorted({*connection.extra}.difference(TAKEN, WITHOUT_MEANING))):
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
    if connection.login:
        parameters["user"] = connection.login
    if connection.password:
        parameters["password"] = connection.password
    if "," in connection.host:
        parameters["target_session_attrs"] = "read-write"
    chosen = {key: connection.extra[key] for key in TAKEN if connection.extra.get(key)}
    return parameters | chosen
