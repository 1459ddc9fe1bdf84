"""XA transactions, which the log has in two parts: the rows where they are prepared, and later the commit alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.ingest.mysql.binlog import segment as events

if TYPE_CHECKING:
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.ddl.query import Query
    from penstock.ingest.mysql.server.catalog import TableName

    # The names of transactions, each with the tables that lack its rows.
    Lacking: TypeAlias = tuple[tuple[str, tuple[TableName, ...]], ...]


@dataclass(frozen=True, slots=True)
class LoneCommit:
    """The commit of a transaction that was prepared before the log was read, or before it was read for some tables.

    `tables` are these tables, None for all.
    """

    name: str
    file: str
    pos: int
    tables: tuple[TableName, ...] | None = None


class PreparedTransactions:
    """The transactions that are prepared and neither committed nor rolled back; None if not all are known.

    `lacking` are those of them whose rows were passed before some tables were captured, with these tables.
    """

    def __init__(self, names: Iterable[str] | None, lacking: Lacking = ()) -> None:
        self._names, self._has_all = dict.fromkeys(names or ()), names is not None
        self._lacking = dict(lacking)
        self.lone: list[LoneCommit] = []

    @property
    def names(self) -> tuple[str, ...] | None:
        return tuple(self._names) if self._has_all else None

    @property
    def lacking(self) -> Lacking:
        return tuple(self._lacking.items())

    def follow(self, segment: Segment, begin: int, end: int) -> None:
        kinds = segment.kind[begin:end]
        # A compressed transaction, which is not opened here, may end with its preparation.
        if (kinds == events.TRANSACTION_PAYLOAD).any():
            self._has_all = False
        for event in (np.flatnonzero(kinds == events.XA_PREPARE) + begin).tolist():
            with events.reading(segment, event, "a prepared transaction"):
                body = segment.body(event)
                # With another first byte it is XA COMMIT ... ONE PHASE.
                if body[:1] == b"\0":
                    self._names[_name(body)] = None

    def statement(self, query: Query, file: str, pos: int) -> None:
        words = query.sql.lower().split(None, 2)
        if len(words) < 3 or words[0] != "xa" or words[1] not in {"commit", "rollback"}:
            return
        name = words[2].strip()
        tables, is_known = self._lacking.pop(name, None), name in self._names
        self._names.pop(name, None)
        if words[1] == "commit" and (tables or not is_known):
            self.lone.append(LoneCommit(name, file, pos, tables))


def _name(body: bytes) -> str:
    """Return the name of a transaction as the server writes it in the statement that commits it."""
    form, length, more = (int.from_bytes(body[at : at + 4], "little", signed=True) for at in (1, 5, 9))
    data = body[13 : 13 + length + more]
    if len(data) < length + more:
        raise ValueError("the event ends within the name of the transaction")
    return f"x'{data[:length].hex()}',x'{data[length:].hex()}',{form}"
