"""Commands of the release check: each within a time, and a registry that hiccups is asked again."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".tidemark" / "release"
PAUSES: tuple[float, ...] = (2, 5, 10, 20)
MINUTES = 20
OURS = ("PYTHON", "VIRTUAL_ENV", "TIDEMARK", "AIRFLOW")


class Broken(Exception):
    """A package does not do what it should, or can't be had."""


def run(
    command: Sequence[str | Path], cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> str:
    """What the command prints, without the variables of whoever started the check.

    Raises:
        Broken: it fails, with what it said; or it takes longer than `MINUTES`.
    """
    theirs = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    env = {**theirs, "AIRFLOW_HOME": str(WORK / "airflow"), **(more or {})}
    words = [*map(str, command)]
    shown = " ".join(" ".join(words).split())[:200]
    words[0] = shutil.which(words[0], path=env["PATH"]) or words[0]
    try:
        done = subprocess.run(  # noqa: S603 -- our own words
            words, cwd=cwd or ROOT, env=env, capture_output=True, text=True, check=False,
            timeout=MINUTES * 60,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Broken(f"`{shown}` took longer than {MINUTES} minutes") from error
    except OSError as error:
        raise Broken(f"`{shown}`: {error}") from error
    if done.returncode:
        said = f"{done.stdout[-2000:]}{done.stderr[-3000:]}".strip()
        raise Broken(f"`{shown}` ended with {done.returncode}\n{said}".strip())
    return done.stdout


def fetch(what: str, command: Sequence[str | Path], more: Mapping[str, str] | None = None) -> None:
    """The command, which asks a registry, has succeeded: at the first try or a later one.

    Raises:
        Broken: it never does; with the name of what can't be had.
    """
    for pause in PAUSES:
        try:
            run(command, more=more)
        except Broken as error:
            print(f"  {what}: {last_line(error)}; asking again in {pause} s", flush=True)
            time.sleep(pause)
        else:
            return
    try:
        run(command, more=more)
    except Broken as error:
        raise Broken(f"can't have {what}, asked {len(PAUSES) + 1} times: {error}") from error


def last_line(error: Broken) -> str:
    """What a command said at last."""
    return str(error).splitlines()[-1].strip()


@contextmanager
def step(name: str) -> Iterator[None]:
    """The step is shown when it begins, and with its seconds when it succeeds."""
    print(f"… {name}", flush=True)
    began = time.monotonic()
    yield
    print(f"✓ {name}: {time.monotonic() - began:.0f} s", flush=True)
