"""The built packages in clean environments, as somebody would install them.

`make release-check` builds the sdist and the wheel and installs each with every Python that
Tidemark names and that can be had here: without extras, with each by itself, with all. There it
asks for help, imports every module, and, from the wheel with all extras, takes records from Kafka
to Postgres in an empty folder. Pythons that can't be had are named at the end; they are no failure.
`python -m scripts.release.check 3.13 3.14` tries these alone.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from zipfile import ZipFile

from scripts.release.command import ROOT, WORK, Broken, fetch, run, step
from scripts.release.environment import BRINGS, PYTHONS, Environment, available

import tidemark

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def build() -> tuple[Path, Path]:
    """The wheel, made of the sdist, and the sdist; the local stack's wheel lies beside them.

    Raises:
        Broken: CHANGELOG.md does not name the version.
    """
    version = tidemark.__version__
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        raise Broken(f"CHANGELOG.md has no section {version}")
    command: list[str | Path] = ["uv", "build", "--quiet", "--out-dir", WORK / "dist"]
    fetch("the sdist and the wheel", [*command, ROOT])
    fetch("the local stack's wheel", [*command, "--wheel", ROOT / "tools"])
    return (
        WORK / "dist" / f"airflow_provider_tidemark-{version}-py3-none-any.whl",
        WORK / "dist" / f"airflow_provider_tidemark-{version}.tar.gz",
    )


def build_in_image(wheel: Path) -> None:
    """What the Dockerfile copies makes the same wheel.

    Raises:
        Broken: it makes none, or one with other files.
    """
    folder = WORK / "image"
    folder.mkdir()
    context(ROOT / "Dockerfile", folder)
    fetch(
        "the image's wheel",
        ["uv", "build", "--quiet", "--wheel", "--out-dir", folder / "dist", folder],
    )
    other = {*ZipFile(wheel).namelist()} ^ {*ZipFile(folder / "dist" / wheel.name).namelist()}
    if other:
        raise Broken(f"the image's wheel differs in {sorted(other)}")


def context(dockerfile: Path, folder: Path) -> None:
    """The folder holds what the image gets in its working folder: copied, and let through."""
    for source, to in copied(dockerfile):
        for found in sorted(ROOT.glob(source)) if let_through(source) else ():
            place = folder / (to if found.is_dir() else found.name)
            if found.is_dir():
                unwanted = shutil.ignore_patterns("__pycache__")
                shutil.copytree(found, place, symlinks=True, ignore=unwanted)
            else:
                shutil.copy(found, place)


def copied(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """Each source, and where it goes."""
    for line in dockerfile.read_text().splitlines():
        if line.startswith("COPY "):
            *sources, to = line.split()[1:]
            yield from ((source, to) for source in sources)


def let_through(source: str) -> bool:
    """Whether .dockerignore, which ignores all and names exceptions, has this one."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    return any(
        source == one or fnmatch(source, one) or source.startswith(f"{one}/") for one in kept
    )


def lint_workflows() -> bool:
    """Whether actionlint, which is made by Go, has found the workflows right.

    Raises:
        Broken: with what it says.
    """
    if shutil.which("go") is None:
        return False
    fetch(f"actionlint ({ACTIONLINT})", ["go", "install", ACTIONLINT], {"GOBIN": str(WORK / "bin")})
    run([WORK / "bin" / "actionlint"])
    return True


def environments(pythons: dict[str, Path], wheel: Path, sdist: Path) -> Iterator[Environment]:
    """Each extra by itself with one Python alone: they differ in packages, not in Python."""
    for python, interpreter in pythons.items():
        yield Environment(python, interpreter, wheel)
        yield Environment(python, interpreter, sdist)
        yield Environment(python, interpreter, wheel, tuple(BRINGS))
    for python, interpreter in islice(pythons.items(), 1):
        yield from (Environment(python, interpreter, wheel, (extra,)) for extra in BRINGS)


def works(environment: Environment) -> bool:
    """Whether all is well in it; else it is said what is not."""
    try:
        with step(environment.name):
            environment.install()
            environment.try_out()
            if environment.is_whole:
                environment.run_a_pipeline()
    except Broken as error:
        print(f"✗ {environment.name}: {error}", flush=True)
        return False
    finally:
        shutil.rmtree(environment.folder, ignore_errors=True)
    return True


def main(wanted: tuple[str, ...]) -> int:
    """0 if every package works in every environment."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    try:
        with step("sdist and wheels"):
            wheel, sdist = build()
        with step("the wheel that the image builds"):
            build_in_image(wheel)
        with step("workflows"):
            untried = [] if lint_workflows() else ["actionlint: there is no go here"]
    except Broken as error:
        print(f"✗ {error}", flush=True)
        return 1
    pythons, missing = available(wanted)
    untried += [f"Python {python}: it can't be had here: {why}" for python, why in missing.items()]
    worked = [works(one) for one in environments(pythons, wheel, sdist)]
    for one in untried:
        print(f"– not tried: {one}", flush=True)
    print(f"{sum(worked)} of {len(worked)} environments work", flush=True)
    return 0 if worked and all(worked) else 1


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or PYTHONS))
