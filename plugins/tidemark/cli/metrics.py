"""`tidemark metrics`: where regions stand, for Prometheus."""

from collections.abc import Iterator
from socketserver import ThreadingMixIn
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import typer
from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from tidemark.cli.asking import Brokers, asked, status_in, unknown
from tidemark.cli.errors import tell, tell_no_pipelines
from tidemark.cli.faults import AddressNotServed, AddressUnreadable
from tidemark.cli.output import Verbose
from tidemark.cli.project import DAGS, PipelinesDir, chosen_pipelines
from tidemark.views.metrics import Measures, measures_of, metrics_of

if TYPE_CHECKING:
    from tidemark.runs.region import Region
    from tidemark.settings.pipeline import Pipeline


class Collector:
    """Asks the ledger and Kafka at each scrape, one region after the other."""

    def __init__(self, pipelines: "list[Pipeline]") -> None:
        self._pipelines = pipelines

    def collect(self) -> Iterator[Any]:
        """What prometheus-client calls for a scrape."""
        brokers = Brokers()
        return metrics_of(_measured(one, brokers) for one in self._pipelines)


class SharedScrape:
    """One collection at a time: who asks while one is under way is given what it finds."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._lock = Lock()
        self._found: list[Any] = []
        self._done = 0

    def collect(self) -> Iterator[Any]:
        """What prometheus-client calls for a scrape."""
        done = self._done
        with self._lock:
            if self._done == done:
                self._found = [*self._collector.collect()]
                self._done += 1
            return iter(self._found)


def _measured(pipeline: "Pipeline", brokers: Brokers) -> Measures:
    def look(region: "Region") -> Measures:
        return measures_of(region, status_in(region, brokers))

    return asked(pipeline, look, lambda problem: Measures(unknown(pipeline, problem)))


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
    """Print the state of regions as Prometheus metrics, or serve them.

    They are gauges, read from the ledger and Kafka at each scrape: lag, drift and oldest unread
    record of each partition, the newest checkpoint's time, counts of the newest batch, dead letters
    by reason, durations of the last day's batches, runs, retries, resets in a row, members. A
    region that can't be asked has tidemark_up 0 and its known values. docs/observing.md explains
    each.

      tidemark metrics
      tidemark metrics flights
      tidemark metrics --serve 127.0.0.1:9464
    """
    faults: list[str] = []
    wanted = chosen_pipelines(region, pipelines, faults)
    tell_no_pipelines(faults)
    # Without auto-describe a collector is not asked when it is registered.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SharedScrape(Collector(wanted)))
    if serve:
        _serve(serve, registry)
    else:
        typer.echo(generate_latest(registry).decode(), nl=False)


def _serve(address: str, registry: Any) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise AddressUnreadable(address=address)
    try:
        server = make_server(
            host, int(port), _at_its_path(make_wsgi_app(registry)), _MetricsServer, _Quiet
        )
    except (OSError, OverflowError) as error:
        raise AddressNotServed(address=address, cause=str(error)) from error
    tell(f"metrics on http://{host}:{server.server_port}/metrics; Ctrl-C ends it")
    if not host.startswith("127.") and host != "localhost":
        tell("whoever reaches this address can read them: there is no login", "yellow")
    with server:
        server.serve_forever()


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """Who hangs while it is answered holds up no other one."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    """Scrapes are not logged."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def _at_its_path(metrics_app: Any) -> Any:
    """The metrics at / and /metrics, and nothing else anywhere."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] in ("", "/", "/metrics"):
            return metrics_app(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"metrics are at /metrics\n"]

    return app
