"""The schema changes that a Flink CDC file includes and excludes, as the names of events."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from penstock.errors import ConfigError
from penstock.ingest.database.shared_targets import is_one_name
from penstock.pipelines.config.rules import EventType

log = logging.getLogger(__name__)

EVOLVING = frozenset({"evolve", "try_evolve"})
# Flink CDC gives the column of the table the new type of the source, also one that Paimon's sync jobs refuse.
CASTS = ("allow-lossless", "allow-non-string-to-string")
# The changes of whole tables and columns that Flink CDC applies to a table with evolve and try_evolve.
_APPLIED = ("rename.column", "drop.column", "truncate.table", "drop.table")
_FOLLOWED = {
    "rename.column": ("rename-column", "rename"),
    "truncate.table": ("truncate", "delete-all"),
    "drop.table": ("drop", "delete-all"),
}
_EMPTYING = ("truncate.table", "drop.table")
_KEPT = "the target keeps columns that the source drops"
_ONE_DATABASE = "a file with the tables of one database follows all but drop.column"
_LENIENT = (
    "lenient excludes these in Flink CDC only without a list of excluded changes: add them to it, or follow them with "
    "schema.change.behavior: evolve"
)


def events(given: Any) -> list[str]:
    """Expand shorthand event names.

    `add`, `column` and `table` mean all events with that word in their name, `all` means every event.
    """
    texts = given if isinstance(given, list) else str(given or "").strip("[]").split(",")
    written = [str(text).strip().lower().removesuffix(".event") for text in texts]
    every = get_args(EventType)
    known = {"all", *every, *(part for event in every for part in event.split("."))}
    if unknown := next((word for word in written if word and word not in known), None):
        raise ConfigError(f"unknown schema change {unknown!r}", hint=f"the schema changes are {', '.join(every)}")
    return [event for event in every if any(word in {"all", event, *event.split(".")} for word in written)]


def followed_statements(behavior: str, sink: Mapping[str, Any], tables: Sequence[str]) -> dict[str, str]:
    """Return the section `ddl` with the changes that Flink CDC applies to the tables; log those that it lacks.

    If tables come from several databases, a table may have rows of several source tables, and follows none of them.
    """
    excluded = sink.get("exclude.schema.changes") or ()
    accepted = set(sink.get("include.schema.changes") or _APPLIED) - set(excluded)
    evolves = behavior in EVOLVING
    # By default, lenient excludes these two changes. A list of excluded changes replaces that default.
    applied = _APPLIED if evolves else _EMPTYING if behavior == "lenient" and excluded else ()
    is_one_database = is_one_name({table.partition(".")[0] for table in tables})
    followed = _FOLLOWED if evolves and is_one_database else {}
    if changes := [event for event in applied if event in accepted and event not in followed]:
        log.warning(
            "event=source_ddl_not_followed changes=%s behavior=%s hint=%s",
            ",".join(changes),
            behavior,
            (_KEPT if is_one_database else _ONE_DATABASE) if evolves else _LENIENT,
        )
    return {key: how for event, (key, how) in followed.items() if event in accepted}
