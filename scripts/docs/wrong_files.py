"""What a person is told of each wrong pipeline file: tests/unit/wrong_files.txt.

A line of the file is what differs from a pipeline that is right, as YAML; null removes a section.
Below it stands what `Pipeline.load` says.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from tidemark.settings.errors import PipelineFaults
from tidemark.settings.pipeline import Pipeline

RIGHT = """\
region: flights
kafka: {connection: k, topics: [flights]}
decode: {schema: {year: int}}
target: {connection: w, table: public.flights}
"""
INDENT = " " * 4


def as_told(text: str) -> str:
    """The same wrong files, each with what is said of it now."""
    changes = [line for line in text.splitlines() if line and not line.startswith(INDENT)]
    with TemporaryDirectory() as folder:
        return "\n".join(_block(Path(folder) / "p.yaml", change) for change in changes)


def _block(path: Path, change: str) -> str:
    found = yaml.safe_load(RIGHT)
    for key, value in yaml.safe_load(change).items():
        known = found.pop(key, {})
        if value is not None:
            found[key] = known | value if isinstance(value, dict) and known else value
    path.write_text(yaml.safe_dump(found))
    try:
        Pipeline.load(path)
    except PipelineFaults as refused:
        told = (f"{INDENT}{one['key'] or 'file'}: {one['problem']}\n" for one in refused.faults)
        return f"{change}\n{''.join(told)}"
    raise ValueError(f"nothing is wrong with {change}")
