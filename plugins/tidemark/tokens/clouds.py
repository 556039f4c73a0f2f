"""The clouds' own token callbacks: Amazon's MSK and RDS, Azure's Postgres, Google's Kafka.

They do what the hooks of Airflow's providers do, by the libraries that those call. Not by the hooks
themselves: drivers, Spark's tasks, pages and the command line have no Airflow to ask. So each
process logs in as the identity of its machine, which the library finds: a role, a workload
identity, or the cloud's own variables.

By the address of a server it is known whose token it gets. No other server gets one unless the
installation lists the callback: a token that a stranger's server asks for would be his.
"""

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC
from functools import cache
from time import time  # noqa: TID251 - a token says when it was made
from typing import Any

from tidemark.errors import packages_of

_FLAGS = re.IGNORECASE | re.ASCII
_MSK = re.compile(
    r"[\w.-]+\.kafka(?:-serverless)?\.([a-z\d-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?", _FLAGS
)
_GOOGLE = re.compile(r"[\w.-]+\.managedkafka\.[\w.-]+\.cloud\.goog(?::\d+)?", _FLAGS)
_RDS = re.compile(
    r"[\w.-]+\.(?:([a-z\d-]+)\.rds\.amazonaws\.com|rds\.([a-z\d-]+)\.amazonaws\.com\.cn)", _FLAGS
)
_AZURE = re.compile(r"[\w.-]+\.postgres\.database\.azure\.com", _FLAGS)

AZURE_SCOPE = "https://ossrdbms-aad.database.windows.net/.default"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def kafka_keys(servers: str) -> dict[str, str]:
    """What a Kafka connection says of tokens, if all its servers are of one cloud; else nothing."""
    each = [server.strip() for server in servers.split(",")]
    regions = {found and found[1].lower() for found in map(_MSK.fullmatch, each)}
    if len(regions) == 1 and (region := regions.pop()):
        return {"oauth_cb": f"{__name__}.msk", "sasl.oauthbearer.config": region}
    if all(map(_GOOGLE.fullmatch, each)):
        return {"oauth_cb": f"{__name__}.google"}
    return {}


def postgres_callback(host: str) -> str | None:
    """The callback for a host that is a cloud's own; None for any other."""
    if _RDS.fullmatch(host):
        return f"{__name__}.rds"
    return f"{__name__}.azure" if _AZURE.fullmatch(host) else None


def msk(region: str | None) -> tuple[str, float]:
    """A token for Amazon MSK in a region, as the machine's identity.

    Raises:
        MissingExtra: the signer is not installed.
    """
    with packages_of("aws", "a login to Amazon MSK by IAM"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, expires_ms / 1000


def rds(parameters: Mapping[str, Any]) -> str:
    """A password for Amazon RDS or Aurora, as the machine's identity.

    The region is that of the host's name; of another name it is the machine's.

    Raises:
        MissingExtra: boto3 is not installed.
    """
    host, port, user = (str(parameters.get(key, "")) for key in ("host", "port", "user"))
    found = _RDS.fullmatch(host)
    region = found and (found[1] or found[2]).lower()
    made: str = _rds_client(region).generate_db_auth_token(host, int(port), user)
    return made


def azure(_: Mapping[str, Any]) -> str:
    """A password for Azure Database for PostgreSQL, as the machine's identity.

    Raises:
        MissingExtra: azure-identity is not installed.
    """
    token: str = _azure_credential().get_token(AZURE_SCOPE).token
    return token


def google(_: str | None) -> tuple[str, float]:
    """A token for Google Cloud Managed Service for Apache Kafka, as the machine's identity.

    Raises:
        MissingExtra: google-auth is not installed.
    """
    credentials, request = _google_credentials()
    if not credentials.valid:
        credentials.refresh(request)
    expires = credentials.expiry.replace(tzinfo=UTC).timestamp()
    claims = {
        "exp": expires,
        "iss": "Google",
        "iat": time(),
        "scope": "kafka",
        "sub": getattr(credentials, "service_account_email", ""),
    }
    header = json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"})
    return ".".join(map(_in_base64, (header, json.dumps(claims), credentials.token))), expires


def _in_base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@cache
def _rds_client(region: str | None) -> Any:
    """It renews the machine's credentials by itself."""
    with packages_of("aws", "a login to Amazon RDS by IAM"):
        from boto3 import Session
    return Session().client("rds", region_name=region)


@cache
def _azure_credential() -> Any:
    """It keeps a token until shortly before its end."""
    with packages_of("azure", "a login to Azure by Entra"):
        from azure.identity import DefaultAzureCredential
    return DefaultAzureCredential()


@cache
def _google_credentials() -> tuple[Any, Any]:
    with packages_of("google", "a login to Google's Kafka"):
        import google.auth
        from google.auth.transport.requests import Request
    credentials, _ = google.auth.default(scopes=[GOOGLE_SCOPE])
    return credentials, Request()
