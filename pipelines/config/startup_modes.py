"""`--from PLACE`: where a new checkpoint begins, with the same spelling for all sources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from penstock.errors import ConfigError
from penstock.pipelines.config.model import KafkaSource, PipelineSpec

_HINT = "earliest, latest, or a time such as 2026-01-31T12:00:00Z or 1769860800000"
_KAFKA = {"earliest": "earliest-offset", "latest": "latest-offset"}


def started_at(spec: PipelineSpec, place: str) -> PipelineSpec:
    source: Any = spec.source
    word = place.strip().lower().removesuffix("-offset")
    millis = None if word in _KAFKA else _millis(place)
    if isinstance(source, KafkaSource):
        mode = _KAFKA.get(word, "timestamp")
    elif hasattr(source, "startup"):
        mode = word if word in _KAFKA else "timestamp"
    else:
        raise ConfigError(f"a source of type {source.type} always starts with the existing data", hint="remove --from")
    known = type(source.startup).model_fields
    changes: dict[str, object] = {"mode": mode}
    if millis is not None and "timestamp_millis" in known:
        changes["timestamp_millis"] = millis
    startup = type(source.startup).model_validate({**source.startup.model_dump(), **changes})
    return spec.model_copy(update={"source": source.model_copy(update={"startup": startup})})


def _millis(place: str) -> int:
    if place.isdigit():
        return int(place)
    try:
        moment = datetime.fromisoformat(place)
    except ValueError as reason:
        raise ConfigError(f"--from {place!r} is not a start position", hint=_HINT) from reason
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
