"""Where a project's modules are imported from, here and in Spark's workers."""

import os
import sys
from pathlib import Path


def find_project(project: Path) -> None:
    """What lies in the project can be imported: its transforms, its decoders."""
    root = str(project)
    if root not in sys.path:
        sys.path.insert(0, root)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
