"""A packed environment: this installation's packages for executors that do not share it.

It holds the very files that the driver imports, so that both are of one version, and a command
`bin/python` that starts the executor's own Python with them.
"""

import io
import os
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from tidemark import DISTRIBUTION
from tidemark.spark.cluster import PACKAGE
from tidemark.spark.errors import PackageNotInstalled

NEEDED = (DISTRIBUTION, "pyspark", "pandas")
LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests)/|^\.\./|\.pyi$|^pyspark/(bin|data|examples|jars|licenses|python)/"
    r"|^pyarrow/include/"
)
"""What no task imports; the cluster has Spark's jars."""

PYTHON = """\
#!/bin/sh
# This machine's {python} with the packages beside this file.
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
exec {python} "$@"
"""


def pack(target: Path, extra: Iterable[str] = ()) -> list[str]:
    """The archive holds Tidemark, what it needs and the `extra` packages; names and versions.

    If it is cut short nothing stands under the target's name.

    Raises:
        InvalidSettings: a package is not installed here.
    """
    packages = _closure([*NEEDED, *extra])
    part = target.with_name(f"{target.name}.part")
    with _opened(part, compressed=target.suffix != ".tar") as archive:
        _add_python(archive)
        archive.add(PACKAGE, "lib/tidemark", filter=_wanted)
        for path, name in _files(packages):
            archive.add(path, f"lib/{name}", recursive=False)
    os.replace(part, target)
    return sorted(f"{one.name} {one.version}" for one in packages)


def _opened(path: Path, *, compressed: bool) -> tarfile.TarFile:
    if compressed:
        return tarfile.open(path, "w:gz", compresslevel=1, dereference=True)
    return tarfile.open(path, "w", dereference=True)


def _closure(names: Sequence[str]) -> list[Distribution]:
    """The packages and what they need; what a requirement's marker excludes is not installed."""
    found = {name: _installed(name) for name in names}
    waiting = list(found.values())
    while waiting:
        for text in waiting.pop().requires or ():
            match = re.match(r"[\w.-]+", text)
            if match is None or "extra ==" in text or match[0] in found:
                continue
            try:
                found[match[0]] = distribution(match[0])
            except PackageNotFoundError:
                continue
            waiting.append(found[match[0]])
    return list({one.name: one for one in found.values()}.values())


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise PackageNotInstalled(package=name) from None


def _files(packages: Iterable[Distribution]) -> Iterator[tuple[Path, str]]:
    for package in packages:
        for file in package.files or ():
            path, name = Path(str(package.locate_file(file))), file.as_posix()
            if not LEFT_OUT.search(name) and path.is_file() and not name.startswith("tidemark/"):
                yield path, name


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


def _add_python(archive: tarfile.TarFile) -> None:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    text = PYTHON.format(python=python).encode()
    member = tarfile.TarInfo("bin/python")
    member.size, member.mode = len(text), 0o755
    archive.addfile(member, io.BytesIO(text))
