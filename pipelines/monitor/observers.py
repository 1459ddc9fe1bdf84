"""The observers of a running pipeline, as its section `observe` describes them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.errors import PenstockError
from penstock.ingest.connector import RECORDS, ROWS
from penstock.ingest.patience import patience
from penstock.ingest.source_waits import waiting_for_source
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.facts import Copying, Observer
from penstock.pipelines.monitor.logs import LiveProgress, keep_above
from penstock.pipelines.monitor.measures import span
from penstock.pipelines.monitor.pipeline_state import stalled
from penstock.pipelines.monitor.run_monitor import RunMonitor
from penstock.pipelines.monitor.sent_failure import SentFailure
from penstock.pipelines.monitor.server import StatusServer
from penstock.pipelines.monitor.sizes import Sizes
from penstock.pipelines.monitor.status import state_of
from penstock.pipelines.monitor.status_text import page_facts
from penstock.pipelines.monitor.webhook import WebhookObserver
from penstock.references import resolve

log = logging.getLogger(__name__)


@contextmanager
def observed(spec: PipelineSpec, watch: RunMonitor) -> Iterator[None]:
    """Start the observers. Raise ConfigError if a package is missing or the port is in use."""
    wanted = spec.observe
    observers: list[Observer] = []
    with ExitStack() as stack:
        watch.copying = _copying(spec, watch)
        _log_backlog(spec, watch)
        if wanted.metrics is not None:
            observers.append(_served(spec, watch, stack))
        if wanted.open_telemetry is not None:
            from penstock.pipelines.monitor.tracing import TracingObserver

            observers.append(TracingObserver(spec.pipeline.name, wanted.open_telemetry))
        if (webhook := webhook_of(spec)) is not None:
            observers.append(webhook)
        if wanted.progress == "always" or (wanted.progress == "auto" and sys.stderr.isatty()):
            live = LiveProgress(spec.pipeline.name, snapshot=lambda: watch.copying.now, unit=watch.lag_unit)
            keep_above(live)
            stack.callback(keep_above, None)
            observers.append(live)
        watch.observers = observers
        yield


def webhook_of(spec: PipelineSpec) -> WebhookObserver | None:
    """Return the observer that sends notifications, if the pipeline has a webhook."""
    notify = spec.observe.notify
    # An empty variable switches the notifications off.
    if notify.webhook is None or not resolve(notify.webhook):
        return None
    sent = SentFailure(CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options))
    return WebhookObserver(spec.pipeline.name, notify.webhook, notify.events, notify.at_most_every, failures=sent)


def _served(spec: PipelineSpec, watch: RunMonitor, stack: ExitStack) -> Observer:
    from penstock.pipelines.monitor.metrics import Metrics

    metrics = Metrics(
        spec.pipeline.name,
        lag_unit=connector(spec).capabilities.lag_unit,
        copying=lambda: watch.copying.now,
        sizes=Sizes(watch.warehouse).of,
        parked=lambda: len(watch.folder.parked()),
    )
    databases = build.databases(spec, watch.warehouse)

    def status() -> dict[str, object]:
        return page_facts(state_of(watch.name, spec.checkpoint, watch.warehouse, databases))

    def trouble() -> str | None:
        seconds = stalled(watch.facts, watch.warehouse.now_millis())
        return (
            None if seconds is None else f"nothing was committed for {span(seconds)}, although the source has more data"
        )

    server = StatusServer(spec.observe.metrics or "", status, metrics.text, page=spec.observe.page, trouble=trouble)
    stack.callback(server.close)
    log.info("event=serving address=%s port=%d page=%s", spec.observe.metrics, server.port, spec.observe.page)
    return metrics


def _log_backlog(spec: PipelineSpec, watch: RunMonitor) -> None:
    """Log how many records or rows a pipeline has to read, as nothing else is shown until its first commit."""
    reached = watch.folder.batches.progress().offsets
    follows_tables = reached is None and spec.pipeline.resume_from_tables  # which is known once they were examined
    unit = connector(spec).capabilities.lag_unit
    # The lag of a table counts the rows of later snapshots, and not those that a new pipeline begins with.
    if unit not in {RECORDS, ROWS} or follows_tables or (unit == ROWS and reached is None):
        return
    try:
        # A run does not wait for a number that is only logged.
        with patience(0.0), waiting_for_source():
            lag = watch.source.lag(watch.initial() if reached is None else reached)
    except PenstockError as error:
        log.warning("event=no_backlog reason=%s", error.message)
        return
    places = "tables" if unit == ROWS else "partitions"
    log.info("event=backlog %s=%d %s=%d", unit, sum(lag.values()), places, len(lag))


def _copying(spec: PipelineSpec, watch: RunMonitor) -> Copying:
    """Return the progress of the first copy with the server's estimates. Without them it has no shares."""
    kind, request = connector(spec), request_of(spec)
    if not kind.capabilities.describes_tables:
        return Copying()
    mapping = build.mapping_of(spec, build.job_warehouse(spec))
    try:
        with waiting_for_source():
            estimates = kind.estimates(spec.source, request)
    except PenstockError as error:
        log.warning("event=no_estimates reason=%s", error.message)
        return Copying()
    if watch.folder.batches.progress().planned is None and kind.capture(spec.source, request).reads_rows:
        rows = sum(estimates.values())
        log.info("event=copy_planned tables=%d rows=%d note=estimated by the server", len(estimates), rows)
    sources = {f"{database}.{table}": mapping.target(database, table) for database, table in estimates}
    expected: dict[str, int] = {}
    for (database, table), rows in estimates.items():
        target = sources[f"{database}.{table}"]
        if target is not None:
            expected[target] = expected.get(target, 0) + rows
    return Copying(expected, {name: target for name, target in sources.items() if target is not None})
