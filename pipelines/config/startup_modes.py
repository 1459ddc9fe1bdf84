"""`--from PLACE`: where a new checkpoint begins, with the same spelling for all sources."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.errors import ConfigError
from penstock.ingest.connector import StartPlace
from penstock.ingest.connectors import connector_of
from penstock.pipelines.config.model import PipelineSpec

_HINT = "earliest, latest, or a time such as 2026-01-31T12:00:00Z or 1769860800000"


def started_at(spec: PipelineSpec, place: str) -> PipelineSpec:
    """Return the pipeline, beginning at this place where it has no checkpoint yet."""
    word = place.strip().lower().removesuffix("-offset")
    at: StartPlace = "earliest" if word == "earliest" else "latest" if word == "latest" else _millis(place)
    source = connector_of(spec.source).starting_at(spec.source, at)
    return spec.model_copy(update={"source": source})


def _millis(place: str) -> int:
    if place.isdigit():
        return int(place)
    try:
        moment = datetime.fromisoformat(place)
    except ValueError as reason:
        raise ConfigError(f"--from {place!r} is not a start position", hint=_HINT) from reason
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
