"""The facts of a failure in a status and a notification: the error, its place, and what to do; no values of rows."""

from __future__ import annotations

import re

from penstock.errors import PenstockError, SchemaConflict, SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.pipelines.monitor.unexpected_error import unexpected

# The facts of an error that are places.
_PLACES = ("server", "user", "table", "source", "topic", "partition", "offset", "file")
_FROM_QUOTE = re.compile("[\"'`].*")


def failure_text(error: BaseException) -> str:
    """Return in one line what happened and where."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if not isinstance(error, PenstockError):
        return text
    places = [f"{name} {error.facts[name]}" for name in _PLACES if name in error.facts]
    reason = _reason(error)
    places += [f"reason {reason}"] if reason else []
    return f"{text.rstrip('.')} ({'; '.join(places)})" if places else text


def _reason(error: PenstockError) -> str:
    """Return the reason of an error about a schema or a source in one line, without values of rows.

    Servers and libraries quote a value that they cannot read; a login and a connection read none.
    """
    lines = str(error.facts.get("reason", "")).strip().splitlines()
    if not lines or not isinstance(error, SchemaConflict | SourceError):
        return ""
    if isinstance(error, SchemaConflict | MissingGrant | ConnectionLost):
        return lines[0]
    return _FROM_QUOTE.sub("...", lines[0])


def failure_facts(error: BaseException) -> dict[str, str | None]:
    """Return the members of a status that say why a run failed, and what to do."""
    ours = unexpected(error) if isinstance(error, Exception) and not isinstance(error, PenstockError) else error
    hint = ours.hint if isinstance(ours, PenstockError) else None
    return {"error": f"{type(error).__name__}: {failure_text(error)}", "hint": hint}
