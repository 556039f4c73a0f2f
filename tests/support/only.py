"""Rows of a region's only target, for tests that know of no other."""

from collections.abc import Iterable

import pyarrow as pa

from tidemark.model.batch import ONLY, Staging
from tidemark.postgres.session import Connection
from tidemark.staging.copy import copy_rows


def copy_only(
    connection: Connection,
    staging: Staging,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    member: int,
    attempt: int,
) -> int:
    """The rows are staged; their number."""
    parts = ({ONLY: batch} for batch in batches)
    schemas = {ONLY: schema}
    return copy_rows(connection, staging, parts, schemas, member=member, attempt=attempt)[ONLY]
