"""Errors of the first records, and library errors that no other room translates."""

from contextlib import suppress

from tidemark.errors import InvalidSettings, TidemarkError, Unreachable


class NoSchemaInferred(
    InvalidSettings,
    text="no schema can be inferred: {cause}. Declare the fields under decode.schema, or read more"
    " records with `tidemark preview --limit`",
):
    cause: str


class KafkaClientFailed(
    Unreachable,
    text="Kafka's client failed: {cause}. Check that the brokers of the Kafka connection answer,"
    " and its login",
):
    """Kafka's client raised what no other room has translated."""

    cause: str


def as_tidemark_error(error: Exception) -> TidemarkError | None:
    """An error of SQLAlchemy, psycopg2 or Kafka that nobody translated; None for a defect."""
    with suppress(ImportError):
        import psycopg2
        from confluent_kafka import KafkaException
        from sqlalchemy.exc import DBAPIError

        from tidemark.postgres.errors import translated

        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, psycopg2.Error):
            return translated(cause)
        if isinstance(cause, KafkaException):
            return KafkaClientFailed(cause=cause.args[0].str())
    return None
