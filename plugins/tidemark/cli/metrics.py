"""`tidemark metrics`: where regions stand, for Prometheus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.errors import tell
from tidemark.cli.output import Verbose
from tidemark.cli.project import DAGS, PipelinesDir, chosen_pipelines
from tidemark.cli.status import status_of
from tidemark.errors import InvalidSettings

if TYPE_CHECKING:
    from tidemark.settings.pipeline import Pipeline


class Collector:
    """Asks the ledger and Kafka at each scrape, one region after the other."""

    def __init__(self, pipelines: "list[Pipeline]") -> None:
        self._pipelines = pipelines

    def collect(self) -> Iterator[Any]:
        """What prometheus-client calls for a scrape."""
        from tidemark.operations.metrics import metrics_of

        return metrics_of(map(status_of, self._pipelines))


def metrics(
    region: Annotated[
        str | None, typer.Argument(metavar="[REGION]", help="A region's name or pipeline file.")
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option("--serve", metavar="HOST:PORT", help="Answer scrapes until it is stopped."),
    ] = None,
    pipelines: PipelinesDir = DAGS,
    verbose: Verbose = False,
) -> None:
    """Print where regions stand as Prometheus metrics, or serve them.

    They are gauges, read from the ledger and Kafka at each scrape: lag and drift of each
    partition, the newest checkpoint's time, counts of the newest batch, resets in a row, members. A
    region that can't be asked has tidemark_up 0 and the rest that is known.

      tidemark metrics
      tidemark metrics flights
      tidemark metrics --serve 127.0.0.1:9464
    """
    from prometheus_client import CollectorRegistry, generate_latest

    faults: list[str] = []
    wanted = chosen_pipelines(region, pipelines, faults)
    for fault in faults:
        tell(f"not a pipeline: {fault}", "yellow")
    # Without auto-describe a collector is not asked when it is registered.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(wanted))
    if serve:
        _serve(serve, registry)
    else:
        typer.echo(generate_latest(registry).decode(), nl=False)


def _serve(address: str, registry: Any) -> None:
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidSettings(f"--serve {address}: give host and port, as in 127.0.0.1:9464")
    try:
        server, thread = start_http_server(int(port), host, registry)
    except (OSError, OverflowError) as error:
        raise InvalidSettings(f"--serve {address}: {error}") from error
    tell(f"metrics on http://{host}:{server.server_port}/metrics; Ctrl-C ends it")
    try:
        thread.join()
    finally:
        server.shutdown()
