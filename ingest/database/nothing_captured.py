"""The error if no table of a server is selected or can be captured, with the name that is probably meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.errors import did_you_mean
from penstock.ingest.connector_requests import TableName
from penstock.ingest.database.findings import NothingCaptured
from penstock.ingest.database.settings import CapturedTables

_SHOWN = 8
_ALIKE = 0.75


def nothing_captured(
    tables: CapturedTables, seen: Sequence[TableName], without_key: Sequence[str], hint: str, level: str = "databases"
) -> NothingCaptured:
    """Return the error. `seen` are the tables that the server shows, `level` is what their first names are there."""
    return NothingCaptured(
        "none of the selected tables has a primary key" if without_key else "no table of the server is selected",
        paimon_message="No table satisfies the given database name and table name.",
        hint=hint if without_key else _hint(tables, seen, hint),
        **{level: tables.databases},
        tables=described(tables),
        **tables.limits,
        without_key=", ".join(without_key) or None,
        seen=_shown(seen),
    )


def no_collection(tables: CapturedTables, seen: Sequence[TableName], hint: str) -> NothingCaptured:
    """Return the error for a server with collections."""
    return NothingCaptured(
        "no collection of the server is selected",
        hint=_hint(tables, seen, hint),
        databases=tables.databases,
        collections=described(tables),
        **tables.limits,
        seen=_shown(seen),
    )


def _hint(tables: CapturedTables, seen: Sequence[TableName], hint: str) -> str:
    meant = _meant(tables, seen)
    return f"{meant} {hint}" if meant else hint


def _shown(seen: Sequence[TableName]) -> str:
    names = [".".join(name) for name in seen]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}" or "none at all"


def described(tables: CapturedTables) -> str:
    """Return the selection by name as it was written."""
    return "; ".join(map(_readable, _each(tables.names))) if tables.names else tables.tables


def _meant(tables: CapturedTables, seen: Sequence[TableName]) -> str | None:
    """Return the hint that contains the nearest name of the server, or None if no name is similar."""
    if tables.names is not None:
        whole = [".".join(name) for name in seen]
        return next(filter(None, (_misspelt(pattern, whole) for pattern in _each(tables.names))), None)
    databases, selected = (list(dict.fromkeys(name[part] for name in seen)) for part in (0, 1))
    misspelt = _misspelt(tables.databases, databases) or _misspelt(tables.tables, selected)
    return misspelt or _misspelt(tables.including, selected)


def _misspelt(pattern: str, names: Sequence[str]) -> str | None:
    if any(re.fullmatch(pattern, name) for name in names):
        return None
    return did_you_mean(_readable(pattern), names, cutoff=_ALIKE)


def _each(names: str) -> list[str]:
    """Return the expressions of single tables in one that `names_pattern` made of them."""
    return names.removeprefix("(?:").removesuffix(")").split(")|(?:")


def _readable(pattern: str) -> str:
    return pattern.replace(r"\.", ".")
