"""What a reset or a rewind would do, asked from the page: a dry run, which writes nothing."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidemark.page.credentials import connections_of
from tidemark.page.errors import DryRunTooLong
from tidemark.page.seen import SeenRegion
from tidemark.protocol.destination import destination

if TYPE_CHECKING:
    from tidemark.operations.reset_report import ResetReport

SECONDS = 25
"""A rewind may count in Kafka what would be read again: that takes as long as reading it."""

_POOL = ThreadPoolExecutor(2, "tidemark-dry-run")


def dry_run(seen: SeenRegion, to: str) -> "ResetReport":
    """The report of `tidemark reset NAME --to PLACE`.

    Raises:
        TidemarkError: it would be refused, or something can't be asked.
    """
    place = destination(to)
    connections = connections_of(seen.pipeline)

    def asked() -> "ResetReport":
        from tidemark.operations.reset import reset_region

        return reset_region(
            seen.pipeline, connections, run_id=None, apply=False, who="page", why="dry run",
            to=place,
        )  # fmt: skip

    answer: Future[ResetReport] = _POOL.submit(asked)
    try:
        return answer.result(SECONDS)
    except TimeoutError:
        raise DryRunTooLong(region=seen.name, to=to, seconds=SECONDS) from None
