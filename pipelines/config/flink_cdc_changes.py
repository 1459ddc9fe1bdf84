"""The schema changes that a Flink CDC file includes and excludes, as the names of events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, get_args

from penstock.errors import ConfigError
from penstock.pipelines.config.rules import EventType

log = logging.getLogger(__name__)

# The changes that Flink CDC applies to a table, and a pipeline only if a file of its own asks for it.
_UNFOLLOWED = ("rename.column", "drop.column", "truncate.table", "drop.table")


def events(given: Any) -> list[str]:
    """Expand shorthand event names.

    `add`, `column` and `table` mean all events with that word in their name, `all` means every event.
    """
    texts = given if isinstance(given, list) else str(given or "").strip("[]").split(",")
    written = [str(text).strip().lower().removesuffix(".event") for text in texts]
    every = get_args(EventType)
    known = {"all", *every, *(part for event in every for part in event.split("."))}
    if unknown := next((one for one in written if one and one not in known), None):
        raise ConfigError(f"unknown schema change {unknown!r}", hint=f"the schema changes are {', '.join(every)}")
    return [event for event in every if any(one in {"all", event, *event.split(".")} for one in written)]


def name_unfollowed(behavior: str, sink: Mapping[str, Any]) -> None:
    """Log which changes of the source Flink CDC would apply to the tables, and this pipeline does not."""
    if behavior not in {"evolve", "try_evolve"}:
        return
    accepted = set(sink.get("include.schema.changes", _UNFOLLOWED)) - set(sink.get("exclude.schema.changes", ()))
    if changes := [event for event in _UNFOLLOWED if event in accepted]:
        log.warning(
            "event=source_ddl_not_followed changes=%s behavior=%s hint=a pipeline file of Penstock follows all but "
            "drop.column with  source: {ddl: ...}",
            ",".join(changes),
            behavior,
        )
