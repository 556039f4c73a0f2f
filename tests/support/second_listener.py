"""A broker with a second listener, on which clients log in."""

from pathlib import Path
from typing import ClassVar

from tidemark_local._broker import LocalBroker


class SecondListener(LocalBroker):
    """The first one asks for no login, as that of every local stack."""

    listener: ClassVar[str]
    """Its name."""
    protocol: ClassVar[str]
    """Kafka's word for how it takes a login."""

    @property
    def ports(self) -> tuple[str, ...]:
        return *super().ports, f"{self.name}-{self.listener}"

    @property
    def guarded(self) -> str:
        """Where it asks for a login."""
        return f"127.0.0.1:{self._folder.port(f'{self.name}-{self.listener}')}"

    def login_settings(self) -> dict[str, object]:
        """What the broker is told of logins."""
        raise NotImplementedError

    def _write_properties(self) -> Path:
        path, name = super()._write_properties(), self.listener.upper()
        control = self._folder.port(f"{self.name}-controller")
        both = f"PLAINTEXT://{self.bootstrap},{name}://{self.guarded}"
        settings = self.login_settings() | {
            "listeners": f"{both},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": both,
            "listener.security.protocol.map": (
                f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{name}:{self.protocol}"
            ),
        }
        with path.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())
        return path
