"""A broker with a second listener, on which clients log in by tokens (SASL/OAUTHBEARER)."""

from tests.support.second_listener import SecondListener

LOGIN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="broker";'
)
MECHANISM = "listener.name.tokens.oauthbearer"
REAUTHENTICATION_MS = 600_000
"""Above zero a session ends with its token (KIP-368), unless its client logs in again before."""


class TokenBroker(SecondListener):
    """Takes unsigned tokens, and no login whose token is past."""

    listener = "tokens"
    protocol = "SASL_PLAINTEXT"

    def login_settings(self) -> dict[str, object]:
        """How users log in."""
        return {
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{MECHANISM}.sasl.jaas.config": LOGIN,
            f"{MECHANISM}.connections.max.reauth.ms": REAUTHENTICATION_MS,
        }
