"""What a reset or a rewind would do, asked from the page: a dry run, which writes nothing."""

import logging

from tidemark.operations.region import region_of
from tidemark.operations.reset_report import ResetReport
from tidemark.operations.reset_report import dry_run as dry_run_to_head
from tidemark.operations.rewind import RewindOrder, rewind_region, seq_of
from tidemark.page.given import PATIENCE, Given, connections_of
from tidemark.page.ledgers import impatient
from tidemark.page.seen import SeenRegion
from tidemark.protocol.destination import destination

STATEMENT_SECONDS = 20
"""Rows of the target are counted."""

log = logging.getLogger(__name__)


def dry_run(seen: SeenRegion, to: str, given: Given) -> ResetReport:
    """The report of `tidemark reset NAME --to PLACE`, but no record is read from Kafka.

    Raises:
        TidemarkError: it would be refused, or something can't be asked.
    """
    place = destination(to)
    with region_of(seen.pipeline, connections_of(given, seen.pipeline)) as region:
        impatient(region.ledger, STATEMENT_SECONDS)
        region.broker.ping(PATIENCE)
        if place is None:
            return dry_run_to_head(region)[1]
        order = RewindOrder("page", "dry run", (), None, log.info, is_look=True)
        return rewind_region(region, seq_of(region, place), order, apply=False)
