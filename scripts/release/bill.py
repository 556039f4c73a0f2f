"""Write what an installation is made of, to dist: `python -m scripts.release.bill [FOLDER]`.

sbom.cdx.json is CycloneDX 1.5 with a hash of each file that may be installed; licences.md names
each package's licence, as its own metadata do. Both are of what requirements.txt
names, which a user installs; requirements.lock has the hashes.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import tidemark

ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = "not stated"
_CLASSIFIER = "License :: "


@dataclass(frozen=True, slots=True)
class Part:
    """A package of the lock."""

    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str


def parts(lock: str) -> Iterator[Part]:
    """The packages of a lock; one for another platform has no licence here."""
    for line in lock.replace("\\\n", " ").splitlines():
        if pin := re.match(r"([\w.-]+)==([\w.+!-]+)", line):
            hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
            yield Part(pin[1], pin[2], hashes, licence_of(pin[1]))


def licence_of(name: str) -> str:
    """What the installed package says of its licence, in a line."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return UNKNOWN
    return stated(found) or UNKNOWN


def stated(found: PackageMetadata) -> str | None:
    """An expression, else classifiers, else the first line of the text."""
    if "License-Expression" in found:
        return found["License-Expression"]
    classifiers = [one for one in found.get_all("Classifier") or () if one.startswith(_CLASSIFIER)]
    if names := sorted({one.rpartition(" :: ")[2] for one in classifiers}):
        return ", ".join(names)
    text = found["License"] if "License" in found else ""  # noqa: SIM401 (it has no `get`)
    return next((line.strip() for line in text.splitlines() if line.strip()), None)


def sbom(found: list[Part]) -> dict[str, Any]:
    """The parts as CycloneDX has them."""
    own = {"type": "application", "name": "airflow-provider-tidemark"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own | {"version": tidemark.__version__}},
        "components": [
            {
                "type": "library",
                "name": part.name,
                "version": part.version,
                "purl": f"pkg:pypi/{part.name}@{part.version}",
                "licenses": [{"license": {"name": part.licence}}],
                "externalReferences": [
                    {
                        "type": "distribution",
                        "url": f"https://pypi.org/project/{part.name}/{part.version}/",
                        "hashes": [{"alg": "SHA-256", "content": one} for one in part.hashes],
                    }
                ],
            }
            for part in found
        ],
    }


def licences(found: list[Part]) -> str:
    """A table of all of them."""
    rows = [f"| {part.name} | {part.version} | {part.licence} |" for part in found]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows]) + "\n"


def main(arguments: list[str]) -> int:
    """Write both files."""
    folder = Path(arguments[0]) if arguments else ROOT / "dist"
    folder.mkdir(exist_ok=True)
    wanted = {part.name for part in parts((ROOT / "requirements.txt").read_text())}
    locked = parts((ROOT / "requirements.lock").read_text())
    found = [part for part in locked if part.name in wanted]
    (folder / "sbom.cdx.json").write_text(json.dumps(sbom(found), indent=1) + "\n")
    (folder / "licences.md").write_text(licences(found))
    unknown = [part.name for part in found if part.licence == UNKNOWN]
    print(f"{folder}: {len(found)} packages; licence not stated: {', '.join(unknown) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
