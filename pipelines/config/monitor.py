"""The section `observe`: what a run reports about itself, and to whom."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from penstock.settings import Names, Seconds, Strict, seconds

EVENTS = ("stopped", "failed", "table-parked", "schema-changed", "dead-letter", "lag>DURATION")


def _nothing(given: object) -> object:
    """Treat an empty string as not set: `"${HOOK:-}"` is empty when the variable is not set."""
    return None if given == "" else given


Optional = Annotated[str | None, BeforeValidator(_nothing)]


class Log(Strict):
    format: Literal["logfmt", "json"] = "logfmt"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Notify(Strict):
    webhook: Optional = Field(
        default=None, description="URL that receives each event as JSON; use a reference to keep it secret"
    )
    events: Names = ("stopped", "failed", "table-parked", "schema-changed", "dead-letter")
    at_most_every: Seconds = Field(
        default=60.0, description="minimum time between two notifications of the same event of the same table"
    )

    @field_validator("events")
    @classmethod
    def _are_known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for event in given:
            if event.startswith("lag>"):
                seconds(event.removeprefix("lag>"))
            elif event not in EVENTS:
                raise ValueError(f"unknown event {event!r}; the events are {', '.join(EVENTS)}")
        return given


class Observe(Strict):
    """Prometheus metrics and the status page share one address; both are off unless it is set."""

    metrics: Optional = Field(default=None, description="host:port for Prometheus metrics and the status page")
    page: bool = Field(default=True, description="serve the status page beside the metrics")
    open_telemetry: Optional = Field(default=None, description="OTLP endpoint for the spans of batches")
    progress: Literal["auto", "always", "never"] = Field(
        default="auto", description="a live line of progress; auto: if standard error is a terminal"
    )
    status: Literal["file"] = Field(
        default="file", description="the data for `penstock status`; always written to the checkpoint"
    )
    log: Log = Log()
    notify: Notify = Notify()

    @field_validator("metrics")
    @classmethod
    def _is_an_address(cls, given: str | None) -> str | None:
        port = "0" if given is None else given.rpartition(":")[2]
        if not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{given!r} is not an address; write for example 127.0.0.1:9404")
        return given
