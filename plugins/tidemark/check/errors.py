"""What a look at the first records can meet, and what libraries raise that no room translates."""

from contextlib import suppress

from tidemark.errors import InvalidSettings, TidemarkError, Unreachable


class NoSchemaInferred(InvalidSettings):
    """The first records do not tell their schema."""

    cause: str

    def __str__(self) -> str:
        return f"no schema can be inferred: {self.cause}"


class NoFieldInferred(InvalidSettings):
    """The first records tell no field."""

    values: int
    """That were looked at."""

    def __str__(self) -> str:
        return (
            f"no schema can be inferred: {self.values} values of the first records tell no field."
            " Read more with --limit, or declare the fields"
        )


class KafkaClientFailed(Unreachable):
    """Kafka's client raised what no other room has translated."""

    cause: str

    def __str__(self) -> str:
        return f"Kafka: {self.cause}; check the Kafka connection"


def as_tidemark_error(error: Exception) -> TidemarkError | None:
    """An error of SQLAlchemy, psycopg2 or Kafka that nobody translated; None for a defect."""
    with suppress(ImportError):
        import psycopg2
        from confluent_kafka import KafkaException
        from sqlalchemy.exc import DBAPIError

        from tidemark.postgres.errors import NO_ANSWER, refusal, unreachable

        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, NO_ANSWER):
            return unreachable(cause)
        if isinstance(cause, psycopg2.Error):
            return refusal(cause)
        if isinstance(cause, KafkaException):
            return KafkaClientFailed(cause=cause.args[0].str())
    return None
