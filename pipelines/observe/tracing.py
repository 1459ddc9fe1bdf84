"""Spans of batches for OpenTelemetry: one a batch, one below it for each table."""

from __future__ import annotations

from typing import Any

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.observe.facts import BatchFacts, Look


class Tracing:
    """An observer. `provider` is for those who have one; else spans go to the endpoint by OTLP over HTTP."""

    def __init__(self, pipeline: str, endpoint: str = "", provider: Any = None) -> None:
        self._provider = provider or _provider(pipeline, endpoint)
        self._tracer: Any = self._provider.get_tracer("penstock", penstock.__version__)

    def batch(self, facts: BatchFacts) -> None:
        end = facts.millis * 1_000_000
        start = end - round(facts.seconds * 1e9)
        attributes = {
            "penstock.pipeline": facts.pipeline,
            "penstock.batch": facts.number,
            "penstock.rows": facts.total_rows,
            "penstock.messages": facts.messages,
            "penstock.bytes": facts.bytes,
            "penstock.bad": sum(facts.bad.values()),
            **{f"penstock.seconds.{stage}": spent for stage, spent in facts.told.seconds.items()},
        }
        batch = self._tracer.start_span("penstock.batch", start_time=start, attributes=attributes)
        context = self._context(batch)
        for table, rows in facts.rows.items():
            named = {"penstock.table": table, "penstock.rows": rows}
            span = self._tracer.start_span("penstock.table", context=context, start_time=start, attributes=named)
            for change in facts.schemas:
                if change.table == table:
                    span.add_event("schema changed", {"penstock.schema": change.schema}, change.millis * 1_000_000)
            span.end(end)
        batch.end(end)

    def _context(self, span: Any) -> Any:
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(span)

    def looked(self, look: Look) -> None:
        """Looks are no work of the pipeline."""

    def ended(self, error: PenstockError | None) -> None:
        self._provider.shutdown()


def _provider(pipeline: str, endpoint: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as reason:
        hint = "pip install 'penstock[observe]'"
        raise ConfigError("spans need the packages of OpenTelemetry", hint=hint) from reason
    resource = Resource.create({"service.name": "penstock", "penstock.pipeline": pipeline})
    provider = TracerProvider(resource=resource)
    url = endpoint if endpoint.rstrip("/").endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return provider
