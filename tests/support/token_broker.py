"""A broker with a second listener, on which clients log in by tokens (SASL/OAUTHBEARER)."""

from pathlib import Path

from tidemark_local._broker import LocalBroker

LOGIN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="broker";'
)
MECHANISM = "listener.name.tokens.oauthbearer"
REAUTHENTICATION_MS = 600_000
"""Above zero a session ends with its token (KIP-368), unless its client logs in again before."""


class TokenBroker(LocalBroker):
    """Takes unsigned tokens, and no login whose token is past."""

    @property
    def ports(self) -> tuple[str, ...]:
        return *super().ports, f"{self.name}-tokens"

    @property
    def tokens(self) -> str:
        """Where it asks for a token."""
        return f"127.0.0.1:{self._folder.port(f'{self.name}-tokens')}"

    def _write_properties(self) -> Path:
        path = super()._write_properties()
        control = self._folder.port(f"{self.name}-controller")
        tokens = f"TOKENS://{self.tokens}"
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap},{tokens},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},{tokens}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT"
            ),
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{MECHANISM}.sasl.jaas.config": LOGIN,
            f"{MECHANISM}.connections.max.reauth.ms": REAUTHENTICATION_MS,
        }
        with path.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())
        return path
