"""What a check says of what crosses networks: whether it is encrypted, and to whom."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

from tidemark.check.findings import Doubtful, Finding, Unknown, finding
from tidemark.decode.registry import registry_config
from tidemark.errors import InvalidSettings
from tidemark.kafka.config import kafka_config
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import ConnectionOf
from tidemark.settings.pipeline import Pipeline

UNVERIFIED = {
    "enable.ssl.certificate.verification": "false",
    "ssl.endpoint.identification.algorithm": "none",
}


def encryption_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """Of each connection whether it is encrypted, to a server whose certificate is verified."""
    logins = pipeline.executors, pipeline.readers
    kafka = {pipeline.kafka.connection, *(one.kafka for one in logins)} - {None}
    postgres = {pipeline.warehouse, *(one.warehouse for one in logins)} - {None}
    looks = {**dict.fromkeys(kafka, of_kafka), **dict.fromkeys(postgres, of_postgres)}
    for conn_id in sorted({*pipeline.connections, *pipeline.for_readers.connections}):
        look = looks.get(conn_id, of_registry)
        yield finding(f"encryption of {conn_id}", partial(_checked, connection_of, conn_id, look))


def _checked(connection_of: ConnectionOf, conn_id: str, look: Callable[[Connection], str]) -> str:
    try:
        return look(connection_of(conn_id))
    except InvalidSettings as error:  # told where the connection itself is checked
        raise Unknown("the connection is not known") from error


def of_kafka(found: Connection) -> str:
    """Whether brokers off this machine are asked by TLS."""
    config = kafka_config(found)
    brokers = config["bootstrap.servers"].split(",")
    if _on_this_machine(one.strip().rpartition(":")[0] for one in brokers):
        return "the brokers are on this machine"
    protocol = config.get("security.protocol", "plaintext").lower()
    if not protocol.endswith("ssl"):
        raise Doubtful(
            f"{protocol}: others on the network can read and change records",
            "set security.protocol to ssl or sasl_ssl",
        )
    if off := [key for key, value in UNVERIFIED.items() if config.get(key, "").lower() == value]:
        raise Doubtful(
            f"{protocol}, but {' and '.join(off)} let any server pass for the broker",
            "remove it from the connection's extra, and name the authority in ssl.ca.location",
        )
    return protocol


def of_postgres(found: Connection) -> str:
    """Whether a server off this machine is asked by TLS, and proves its name."""
    parameters = postgres_parameters(found)
    hosts = str(parameters["host"]).split(",")
    if _on_this_machine(hosts):
        return "the server is on this machine"
    mode = str(parameters.get("sslmode", "prefer"))
    if mode != "verify-full":
        raise Doubtful(
            f"sslmode {mode}: another server could pass for the warehouse",
            "set sslmode=verify-full, and sslrootcert, in the connection's extra",
        )
    return f"sslmode {mode}"


def of_registry(found: Connection) -> str:
    """Whether a registry off this machine is asked by https."""
    address = urlsplit(str(registry_config(found)["url"]))
    if _on_this_machine([address.hostname or ""]):
        return "the registry is on this machine"
    if address.scheme != "https":
        raise Doubtful(
            "http: others on the network can read its login and change schemas",
            "set the connection's schema to https",
        )
    return address.scheme


def _on_this_machine(hosts: Iterable[str]) -> bool:
    return all(map(_is_local, hosts))


def _is_local(host: str) -> bool:
    """A loopback address, its name, or a socket's folder."""
    if host == "localhost" or host.startswith("/"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
