"""What a Spark that is not `local` is given: trust, a Python for its tasks, the project's code.

No secret of a connection is among it: those travel to the tasks pickled in their functions. A
project's modules are imported from the same place here and in Spark's workers.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from tidemark.settings.connections import PREFIX, Connection
from tidemark.settings.sections import JOBS
from tidemark.spark.errors import SparkEnvironmentMissing, SparkSecretMissing

PACKAGE = Path(__file__).resolve().parents[1]
UNPACKED = "environment"
"""The folder of an executor in which Spark unpacks a packed environment."""
PACKED_PYTHON = f"./{UNPACKED}/bin/python"
PROJECT = "tidemark-project.zip"

SECRET = "spark.authenticate.secret"  # noqa: S105 (a name)
AUTHENTICATE = "spark.authenticate"

SECURE = {
    AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
"""Set for every master but local where a submitter set nothing."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that a pipeline's Spark connection leads to."""

    connection: Connection | None = None
    """None where the driver was given none: nothing of it is known."""
    project: Path | None = None
    """Whose modules the tasks import; None without a transform or decoder of the user's own."""

    @classmethod
    def of(cls, conn_id: str, project: Path | None) -> "Cluster":
        """The cluster of a connection, which comes from the environment, if it is there."""
        known = os.environ.get(PREFIX + conn_id.upper())
        return cls(Connection.from_env(conn_id) if known else None, project)

    def settings(self, master: str, given: Mapping[str, str]) -> dict[str, str]:
        """Spark's settings for this master; what a submitter has `given` stands.

        Raises:
            InvalidSettings: the master asks for a secret, or there is no archive.
        """
        found = _route(master)
        if self.python is None:  # the installation is shared: in a checkout this package is too
            found["spark.executorEnv.PYTHONPATH"] = str(PACKAGE.parent)
        if given.get(AUTHENTICATE) != "false":
            found |= SECURE | self._secret(master, given)
        own = {key: value for key, value in found.items() if key not in given}
        return own | self._archives(master, given)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its connection leads out of the driver's JVM."""
        host = self.connection.host if self.connection else None
        return is_elsewhere(host or "local")

    @property
    def python(self) -> str | None:
        """The Python of its executors; None where it stands where the driver's does."""
        if self._extra("environment"):
            return PACKED_PYTHON
        return self._extra("python")

    def _extra(self, name: str) -> str | None:
        return self.connection.extra.get(name) if self.connection else None

    def _archives(self, master: str, given: Mapping[str, str]) -> dict[str, str]:
        packed = self._extra("environment")
        if not packed:
            return {}
        if "://" not in packed and not Path(packed).is_file():
            raise SparkEnvironmentMissing(connection=self._name, path=packed)
        key = "spark.yarn.dist.archives" if master.startswith("yarn") else "spark.archives"
        return {key: ",".join(filter(None, [given.get(key), f"{packed}#{UNPACKED}"]))}

    def _secret(self, master: str, given: Mapping[str, str]) -> dict[str, str]:
        """YARN and Kubernetes make one for each application; standalone daemons have one."""
        if not master.startswith("spark://") or SECRET in given:
            return {}
        if self.connection is None or not self.connection.password:
            raise SparkSecretMissing(connection=self._name, master=master)
        return {SECRET: self.connection.password}

    @property
    def _name(self) -> str | None:
        return self.connection.conn_id if self.connection else None


def is_elsewhere(master: str) -> bool:
    """Whether tasks run in other processes than the driver's JVM started."""
    return not master.startswith("local")


def zip_project(project: Path, folder: Path) -> Path:
    """A zip in the folder with the modules below the project's jobs/, and nothing else of it."""
    made = folder / PROJECT
    with ZipFile(made, "w", strict_timestamps=False) as zipped:
        for place, inner, files in os.walk(project / JOBS):
            # Without `__init__.py` a package in a zip is found by the entry of its folder alone.
            zipped.write(place, Path(place).relative_to(project))
            inner[:] = sorted(name for name in inner if name.isidentifier())
            for name in sorted(name for name in files if name.endswith(".py")):
                path = Path(place, name)
                zipped.write(path, path.relative_to(project))
    return made


def _route(master: str) -> dict[str, str]:
    if master.startswith("spark://127.0.0.1:"):
        return {"spark.driver.host": "127.0.0.1"}  # this machine's name may lead elsewhere
    if master.startswith("yarn"):  # a container's folder is longer than a socket's name may be
        return {"spark.python.unix.domain.socket.enabled": "false"}
    return {}


def find_project(project: Path) -> None:
    """What lies in the project can be imported: its transforms, its decoders."""
    root = str(project)
    if root not in sys.path:
        sys.path.insert(0, root)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
