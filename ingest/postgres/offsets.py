"""The end of a batch: one JSON object from which a restart on any machine can resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.ingest.database.progress import CopyProgress, PlannedBatch
from penstock.ingest.database.table_parts import TablePart, parts_from
from penstock.ingest.postgres.log.truncations import EmptiedTable
from penstock.ingest.postgres.server.catalog import TableName
from penstock.ingest.postgres.server.catalog_numbers import COMPUTATION
from penstock.ingest.postgres.server.log_sample import LogSample
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn
from penstock.ingest.postgres.server.silent_columns import NONE, SilentColumns
from penstock.ingest.postgres.server.table_version import TableVersion, with_unknown_places
from penstock.ingest.postgres.snapshot.chunks import KeyChunk
from penstock.ingest.source import Barrier, Offsets

VERSION = 1
_COMPARABLE_PARTS = 3  # of the `parts` of an older release, those that are no numbers of rows
_IN_PUBLICATION, _COMPUTATION, _TOAST = "in_publication", "numbers", "toast"
# From the weakest to the strongest: of two changes of a table the stronger one includes the other.
AlteredKind = Literal[
    "unpublished", "rename-column", "rows-moved", "changed-values", "added-columns", "new", "replaced", "drop"
]


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A change of a table, and the position after which the log has only rows of the new definition.

    `columns` are the columns that were added, or that have other values. The kinds:

    - `new`: the table is read after the position. Its earlier rows in the log may lack columns, or a partition was
      attached with rows that no log has.
    - `replaced`: its target is emptied, and the table read: its rows may have other keys, or may be gone.
    - `rows-moved`: rows left the table, and stay in the target.
    - `unpublished`: the log may lack changes, because the publication was altered or the table was UNLOGGED.
    - `rename-column`: older rows have their values under the former name only.
    """

    kind: AlteredKind
    name: TableName
    position: int
    columns: tuple[str, ...] = ()

    @property
    def barrier(self) -> Barrier:
        if self.kind == "replaced":
            return Barrier("truncate", *self.name)
        assert self.kind != "new"
        assert self.kind != "rows-moved"
        assert self.kind != "unpublished"
        assert self.kind != "rename-column"
        return Barrier(self.kind, *self.name, tuple((column, column) for column in self.columns))

    def to_json(self) -> list[Any]:
        return [self.kind, *self.name, lsn_text(self.position), list(self.columns)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> AlteredTable:
        kind, schema, table, position, columns = value
        return cls(kind, (str(schema), str(table)), parse_lsn(position), tuple(columns))


@dataclass(frozen=True, slots=True)
class PgBatch(PlannedBatch[KeyChunk]):
    """The content of a batch.

    The rows of chunks are as of the position `as_of`, or as of the time of reading if it is 0. `without` are new tables
    whose changes are left out, because their rows are read as of a later position. `emptied` are tables that the first
    transaction of the log empties: their rows before that are left out. `ignored` are changes of whole tables that the
    settings leave unfollowed, by kind.
    """

    as_of: int = 0
    without: tuple[TableName, ...] = ()
    emptied: tuple[EmptiedTable, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def reads_present(self) -> bool:
        return bool(self.chunks) and not self.as_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PgProgress(CopyProgress[KeyChunk]):
    """The state of a PostgreSQL source at the end of a batch.

    Chunks may be read once no transaction older than `visible_from` runs. `fresh` are tables, new ones or such whose
    targets were emptied, that can be read as of `exact_from` or later: their earlier changes in the log may be missing,
    or not readable, and are left out. `emptied` are tables that the transaction at the position of the log empties;
    their targets are empty already. `versions` are the versions of known tables at the last plan, and `altered` the
    changes of tables that the log has not passed yet. `sample` is of the log before its position, None if the server
    shows none.
    """

    server: str
    database: str
    slot: str
    timeline: int = 0  # unknown
    known: tuple[TableName, ...] = ()
    visible_from: int = 0
    exact_from: int = 0
    fresh: tuple[TableName, ...] = ()
    emptied: tuple[EmptiedTable, ...] = ()
    versions: Mapping[TableName, TableVersion] = field(default_factory=dict)
    altered: tuple[AlteredTable, ...] = ()
    sample: LogSample | None = None
    batch: PgBatch = field(default_factory=PgBatch)

    @property
    def is_settled(self) -> bool:
        """True if the tables equal the source at the position of the log."""
        # `super()` alone fails here, because `dataclass(slots=True)` makes a new class from the one in this text.
        return not self.altered and super(PgProgress, self).is_settled

    @property
    def unread(self) -> list[TableName]:
        new = [table.name for table in self.altered if table.kind == "new"]
        return [*super(PgProgress, self).unread, *new]

    def to_json(self) -> Offsets:
        """Return the state as offsets; parts with default values are omitted."""
        made: Offsets = {
            "v": VERSION,
            "server": {"system": self.server, "database": self.database}
            | ({"timeline": self.timeline} if self.timeline else {}),
            "slot": self.slot,
            "phase": "snapshot" if self.reads_tables else "stream",
            "log": lsn_text(self.log),
            "known": [[*name, *self._version(name)] for name in self.known],
            "silent": {
                str(version.oid): version.silent.to_json()
                for version in self.versions.values()
                if version.silent != NONE
            },
            _COMPUTATION: COMPUTATION if self.versions else 0,
            _IN_PUBLICATION: {
                str(version.oid): version.published for version in self.versions.values() if version.published
            },
            _TOAST: {str(version.oid): version.toast for version in self.versions.values() if version.toast},
            "waiting": [list(name) for name in self.waiting],
            "rest": self.rest.to_json() if self.rest is not None else None,
            "rest_part": TablePart(self.rest.name, self.rest.where).to_json()
            if self.rest and self.rest.where
            else None,
            "parts": [part.to_json() for part in self.parts],
            "visible_from": self.visible_from,
            "settle": lsn_text(self.settle) if self.settle else None,
            "exact_from": lsn_text(self.exact_from) if self.exact_from else None,
            "fresh": [list(name) for name in self.fresh],
            "emptied": [list(name) for name in self.emptied],
            "altered": [table.to_json() for table in self.altered],
            "sample": self.sample.to_json() if self.sample is not None else None,
            "reread": self.reread,
            "signals": list(self.signals),
            "refused": list(self.refused),
            "batch": self._batch(),
        }
        return {name: part for name, part in made.items() if part}

    def _batch(self) -> Offsets:
        batch = {
            "from": lsn_text(self.batch.start),
            "chunks": [chunk.to_json() for chunk in self.batch.chunks],
            "barriers": [barrier_json(barrier) for barrier in self.batch.barriers],
            "as_of": lsn_text(self.batch.as_of) if self.batch.as_of else None,
            "without": [list(name) for name in self.batch.without],
            "emptied": [list(name) for name in self.batch.emptied],
            "ignored": list(self.batch.ignored),
        }
        return {name: part for name, part in batch.items() if part}

    def _version(self, name: TableName) -> tuple[Any, ...]:
        found = self.versions.get(name)
        if found is None:
            return ()
        numbers = (found.files, found.marks, found.key_marks, *found.parts)
        return (found.oid, found.columns, list(found.key), found.names, *(numbers if any(numbers) else ()))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PgProgress:
        batch, known = value.get("batch", {}), value.get("known", ())
        return cls(
            server=str(value["server"]["system"]),
            database=str(value["server"]["database"]),
            slot=str(value["slot"]),
            timeline=int(value["server"].get("timeline", 0)),
            log=parse_lsn(value["log"]),
            known=tuple((schema, table) for schema, table, *_ in known),
            waiting=_names(value.get("waiting", ())),
            rest=KeyChunk.from_json(value["rest"]) if "rest" in value else None,
            visible_from=int(value.get("visible_from", 0)),
            settle=parse_lsn(value.get("settle", "0/0")),
            exact_from=parse_lsn(value.get("exact_from", "0/0")),
            fresh=_names(value.get("fresh", ())),
            emptied=_emptied(value.get("emptied", ())),
            # Offsets of an older release have only the names.
            versions={(schema, table): _version(value, *version) for schema, table, *version in known if version},
            altered=tuple(AlteredTable.from_json(table) for table in value.get("altered", ())),
            sample=LogSample.from_json(value["sample"]) if "sample" in value else None,
            reread=str(value.get("reread", "")),
            signals=tuple(value.get("signals", ())),
            parts=parts_from(value.get("parts", ())),
            refused=tuple(value.get("refused", ())),
            batch=PgBatch(
                parse_lsn(batch.get("from", "0/0")),
                tuple(KeyChunk.from_json(chunk) for chunk in batch.get("chunks", ())),
                tuple(map(barrier_from, batch.get("barriers", ()))),
                parse_lsn(batch.get("as_of", "0/0")),
                _names(batch.get("without", ())),
                _emptied(batch.get("emptied", ())),
                tuple(batch.get("ignored", ())),
            ),
        )


def barrier_json(barrier: Barrier) -> list[Any]:
    columns = [[list(pair) for pair in barrier.columns]] if barrier.columns else []
    return [barrier.kind, barrier.database, barrier.table, *columns]


def barrier_from(value: Sequence[Any]) -> Barrier:
    kind, schema, table, *columns = value
    return Barrier(kind, schema, table, tuple((old, new) for pairs in columns for old, new in pairs))


def _version(
    offsets: Mapping[str, Any],
    oid: int,
    columns: int,
    key: Sequence[str],
    names: str,
    files: int = 0,
    marks: int = 0,
    key_marks: int = 0,
    *parts: int,
) -> TableVersion:
    if offsets.get(_COMPUTATION) != COMPUTATION:
        # Compared with numbers of another computation, every table would have changed.
        names = with_unknown_places(names, columns)
        return TableVersion(oid, columns, tuple(key), names, files, 0, key_marks, parts[:_COMPARABLE_PARTS])
    found = offsets.get("silent", {}).get(str(oid))
    silent = NONE if found is None else SilentColumns.from_json(found)
    published = int(offsets.get(_IN_PUBLICATION, {}).get(str(oid), 0))
    toast = int(offsets.get(_TOAST, {}).get(str(oid), 0))
    return TableVersion(oid, columns, tuple(key), names, files, marks, key_marks, parts, silent, published, toast)


def _names(values: Sequence[Sequence[str]]) -> tuple[TableName, ...]:
    return tuple((schema, table) for schema, table in values)


def _emptied(values: Sequence[Sequence[Any]]) -> tuple[EmptiedTable, ...]:
    return tuple((str(schema), str(table), int(rows)) for schema, table, rows in values)
