"""`tidemark pack`: the packages that a cluster's executors need, as one archive."""

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.output import print_line, spinning
from tidemark.spark.packed import pack as packed


def pack(
    target: Annotated[
        Path, typer.Argument(metavar="ARCHIVE", help="The file to make: environment.tar.gz.")
    ],
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="PACKAGE",
            help="A package that transforms import, and what it needs. May be given several times.",
        ),
    ] = None,
) -> None:
    """Pack this installation's packages for executors that do not share it.

    The archive holds Tidemark and what it needs, in the versions installed here, and runs with the
    executors' own Python, which must be of the same version. Name it in the Spark connection
    (extra `environment`): Spark hands it to the executors of each run. The project's own modules
    travel with each run, so they are not in it.

      tidemark pack environment.tar.gz
      tidemark pack environment.tar.gz --with polars
    """
    with spinning("packing"):
        packages = packed(target, extra or ())
    megabytes = target.stat().st_size / 1e6
    print_line(f"{target}: {len(packages)} packages, {megabytes:.0f} MB: {', '.join(packages)}")
