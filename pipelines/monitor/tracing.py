"""Spans for OpenTelemetry: one per batch, below it one per stage, and below the commit one per table."""

from __future__ import annotations

from typing import Any

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.monitor.facts import BatchFacts, Look


class TracingObserver:
    """An observer that sends spans to `provider`, or without one to the endpoint by OTLP over HTTP."""

    def __init__(self, pipeline: str, endpoint: str = "", provider: Any = None) -> None:
        self._provider = provider or _provider(pipeline, endpoint)
        self._tracer: Any = self._provider.get_tracer("penstock", penstock.__version__)

    def batch(self, facts: BatchFacts) -> None:
        # OpenTelemetry counts nanoseconds since the epoch.
        end = facts.millis * 1_000_000
        start = end - round(facts.seconds * 1e9)
        attributes = {
            "penstock.pipeline": facts.pipeline,
            "penstock.batch": facts.number,
            "penstock.rows": facts.total_rows,
            "penstock.messages": facts.messages,
            "penstock.bytes": facts.bytes,
            "penstock.bad": sum(facts.bad.values()),
            **{f"penstock.seconds.{stage}": spent for stage, spent in facts.stats.seconds.items()},
        }
        batch = self._tracer.start_span("penstock.batch", start_time=start, attributes=attributes)
        for stage, (began, ended) in stages(facts, start, end).items():
            span = self._tracer.start_span(f"penstock.{stage}", context=self._context(batch), start_time=began)
            if stage == "commit":
                self._tables(facts, self._context(span), began, ended)
            span.end(ended)
        batch.end(end)

    def _tables(self, facts: BatchFacts, context: Any, start: int, end: int) -> None:
        for table, rows in facts.rows.items():
            named = {"penstock.table": table, "penstock.rows": rows}
            span = self._tracer.start_span("penstock.table", context=context, start_time=start, attributes=named)
            for change in facts.schemas:
                if change.table == table:
                    span.add_event("schema changed", {"penstock.schema": change.schema}, change.millis * 1_000_000)
            span.end(end)

    def _context(self, span: Any) -> Any:
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(span)

    def looked(self, look: Look) -> None:
        """Do nothing: queries of the lag are not part of a batch."""

    def ended(self, error: PenstockError | None) -> None:
        self._provider.shutdown()


def stages(facts: BatchFacts, start: int, end: int) -> dict[str, tuple[int, int]]:
    """Return begin and end, in nanoseconds, of the stages of a batch: planning, reading and writing by tasks, the
    commit, and compactions that were due. The driver measures all but the tasks, to which the rest of the time belongs.
    """
    plan, commit, compact = (round(facts.stats.seconds.get(phase, 0) * 1e9) for phase in ("plan", "commit", "compact"))
    # Stages are measured by different clocks, so each is limited to the time that the batch took.
    planned = min(start + plan, end)
    committed = max(end - compact, planned)
    written = max(committed - commit, planned)
    found = {"plan": (start, planned), "tasks": (planned, written), "commit": (written, committed)}
    return found | ({"compact": (committed, end)} if compact else {})


def check_packages() -> None:
    """Raise ConfigError if the packages of OpenTelemetry are not installed."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace.export  # noqa: F401 -- tried only
    except ImportError as reason:
        hint = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        raise ConfigError("spans need the packages of OpenTelemetry", hint=hint) from reason


def _provider(pipeline: str, endpoint: str) -> Any:
    check_packages()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "penstock", "penstock.pipeline": pipeline})
    provider = TracerProvider(resource=resource)
    url = endpoint if endpoint.rstrip("/").endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return provider
