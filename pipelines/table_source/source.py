"""The changes of Paimon tables as a `ChangeSource`.

Offsets have a `TableProgress` for each table. Positions are snapshot ids, and snapshots are never divided: a batch has
the rows of whole snapshots, except for the state that a new reader begins with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ConfigError, PositionLost
from penstock.formats.change import DecodeOptions, DecodeResult
from penstock.ingest.database.settings import RereadRequests
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.source import SMALL_RECORDS, SMALLEST_PIECE, Barrier, Limit, Offsets, Range
from penstock.pipelines.table_source.lost_positions import check_history, lost_positions
from penstock.pipelines.table_source.progress import REQUESTS, TABLES, SourceProgress, TableProgress
from penstock.pipelines.table_source.upstream import Upstream
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableMissing
from penstock.table.options.scans import CONSUMER_ID
from penstock.table.read.consumer_place import ConsumerPlace
from penstock.table.read.follow import next_snapshot
from penstock.table.read.stream_start import Start, starting

log = logging.getLogger(__name__)

_STATE, _CHANGES, _EMPTY = "state", "changes", "empty"


@dataclass(frozen=True, slots=True)
class TableSourceSettings:
    """The settings of a source of tables. `options` are options of Paimon's streaming reads.

    `rereads` names a request: the target tables of `reset`, or of all tables, are emptied, and the tables read again.
    With `rereads_when_lost` this is done too when a snapshot is gone before it was read. `requests` is where a request
    is kept until a batch has carried it out.
    """

    catalog: CatalogSettings
    tables: tuple[str, ...]
    consumer: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    rereads: str = ""
    reset: tuple[str, ...] = ()
    rereads_when_lost: bool = False
    requests: RereadRequests | None = None


@dataclass(slots=True)
class TableSource:
    """A `ChangeSource` over tables of one catalog."""

    settings: TableSourceSettings
    _opened: dict[str, Upstream] = field(default_factory=dict, repr=False, compare=False)
    _places: dict[str, ConsumerPlace] = field(default_factory=dict, repr=False, compare=False)
    _at_barrier: bool = field(default=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[TableSource], tuple[TableSourceSettings]]:
        return TableSource, (self.settings,)

    def upstream(self, name: str) -> Upstream:
        """Return one of the tables. ConfigError if it does not exist."""
        if name not in self._opened:
            try:
                store = self.settings.catalog.opened(name)
            except TableMissing as reason:
                raise ConfigError(
                    "the source table does not exist",
                    table=name,
                    warehouse=self.settings.catalog.warehouse,
                    hint="create the table, or correct  source: {tables: ...}",
                ) from reason
            self._opened[name] = Upstream(name, store, dict(self.settings.options))
        return self._opened[name]

    def initial_offsets(self) -> Offsets:
        # The start is determined together with the first end, which the checkpoint stores.
        return {}

    def available(self) -> Offsets:
        newest = {name: self.upstream(name).store.snapshots.latest_id() or 0 for name in self.settings.tables}
        return {TABLES: newest}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        before, self._at_barrier = SourceProgress.from_json(start), False
        if asked := self._asked(before):
            names = dict.fromkeys(name for tables in asked.values() for name in tables)
            return self._emptied(before, tuple(names), asked)
        try:
            ends = self._ends(before, limit, until)
        except PositionLost as error:
            if not self.settings.rereads_when_lost:
                raise
            log.warning("event=position_lost reason=%s", error.message)
            return self._emptied(before, self.settings.tables, ())
        is_new = ends.keys() != before.tables.keys()
        if not is_new and all(ends[name].is_empty for name in self.settings.tables):
            for name in self.settings.tables:
                self._place(self.upstream(name)).renew(before.tables[name].keep)
            return start
        return SourceProgress(ends, before.reread).to_json()

    def _asked(self, before: SourceProgress) -> dict[str, Sequence[str]]:
        """Return the requests to carry out, with their tables: of this run, and of earlier ones that were killed."""
        settings = self.settings
        found = {} if settings.rereads in {"", *before.carried_out} else {settings.rereads: self._requested}
        for kept in () if settings.requests is None else settings.requests.pending(before.carried_out):
            if kept.empties:
                found[kept.name] = [name for name in settings.tables if name in kept.tables]
        return found

    @property
    def _requested(self) -> Sequence[str]:
        return self.settings.reset or self.settings.tables

    def _ends(self, before: SourceProgress, limit: Limit, until: Offsets | None) -> dict[str, TableProgress]:
        share = None if limit.rows is None else max(1, limit.rows // len(self.settings.tables))
        ends = {name: table for name, table in before.tables.items() if name not in self.settings.tables}
        for name in self.settings.tables:
            last = None if until is None else int(until[TABLES].get(name, 0))
            with lost_positions(name):
                ends[name] = self._end(self.upstream(name), before.tables.get(name), share, last)
        return ends

    def _emptied(self, before: SourceProgress, names: Sequence[str], requests: Iterable[str]) -> Offsets:
        """Return a batch that empties the targets of tables, whose rows of now are read after it."""
        log.info("event=tables_read_again tables=%s", ",".join(names))
        self._at_barrier = True
        ends = {name: progress.unchanged() for name, progress in before.tables.items()}
        for name in names:
            table = self.upstream(name)
            newest = table.store.snapshots.latest_id() or 0
            ends[name] = self._started(table, Start(newest, newest + 1))
        return SourceProgress(ends, REQUESTS.join(requests) or before.reread, tuple(names)).to_json()

    def _end(self, table: Upstream, before: TableProgress | None, most: int | None, last: int | None) -> TableProgress:
        """Return the end of the next batch of one table, of about `most` rows, not beyond snapshot `last`."""
        begin = self._begin(table) if before is None else before
        rows, done = 0, begin.done
        if begin.done < begin.splits:
            for split in table.state_splits(table.snapshot(begin.state))[begin.done :]:
                rows, done = rows + split.rows, done + 1
                if most is not None and rows >= most:
                    break
        following, mark = begin.next, begin.mark
        while done == begin.splits and (most is None or rows < most):
            snapshot = next_snapshot(table.store, following)  # raises SnapshotReplaced after a rollback
            if snapshot is None or (last is not None and following > last):
                break
            if following == begin.next:
                check_history(table, following - 1, begin)
            rows += table.rows_of(snapshot)
            following, mark = following + 1, snapshot.mark
        created = begin.created or table.store.schemas.created_millis()
        return TableProgress(begin.state, begin.splits, done, following, begin.done, begin.next, mark, created)

    def _begin(self, table: Upstream) -> TableProgress:
        """Return the start of a table without progress, and keep its snapshots from now on."""
        consumer = {CONSUMER_ID.key: self.settings.consumer} if self.settings.consumer else {}
        return self._started(table, starting(table.store, {**table.options, **consumer}))

    def _started(self, table: Upstream, start: Start) -> TableProgress:
        self._place(table).keep(start.state or start.first)
        splits, mark = 0, 0
        if start.state:
            snapshot = table.snapshot(start.state)
            splits, mark = len(table.state_splits(snapshot)), snapshot.mark
        created = table.store.schemas.created_millis()
        return TableProgress(start.state, splits, 0, start.first, 0, start.first, mark, created)

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        before, after = SourceProgress.from_json(start), SourceProgress.from_json(end)
        unread = self._unread_in(after)
        parts: list[tuple[str, list[Any], int]] = []
        if after.emptied and after != before:
            parts.append(("emptied", [_EMPTY, list(after.emptied)], 1))
        for name, progress in after.tables.items():
            # A table that is not read any more keeps its progress, but has no part in the batch.
            if name in self.settings.tables and name not in unread and progress != before.tables.get(name):
                with lost_positions(name):
                    parts += self._parts(self.upstream(name), progress, tasks)
        return [Range(number, place, content, None, weight) for number, (place, content, weight) in enumerate(parts)]

    def _unread_in(self, batch: SourceProgress) -> Sequence[str]:
        """Return the tables that the next batch empties by request of the command line, and that this one leaves out.

        It was planned by an earlier run, and its snapshots may be gone. The request is stored first: this run may end
        before the next batch.
        """
        settings = self.settings
        if settings.requests is None or settings.rereads in {"", *batch.carried_out}:
            return ()
        names = [(database, name) for database, _, name in (table.partition(".") for table in self._requested)]
        settings.requests.add_emptying(names, settings.rereads)
        return self._requested

    def confirm(self, ranges: Sequence[Range], end: Offsets) -> None:
        # Snapshots have numbers, which others have after a rollback.
        read = SourceProgress.from_json(end).tables
        for name in sorted({range_.start[1] for range_ in ranges if range_.start[0] != _EMPTY}):
            check_history(self.upstream(name), read[name].next - 1, read[name])

    def small_weight(self) -> int:
        return SMALL_RECORDS

    def _parts(self, table: Upstream, progress: TableProgress, tasks: int) -> Iterator[tuple[str, list[Any], int]]:
        if progress.done > progress.done_before:
            splits = table.state_splits(table.snapshot(progress.state))
            for first, last, weight in _pieces([split.rows for split in splits], progress, tasks):
                # The rows of a part are numbered from 0: place and number name one row of one snapshot.
                place = f"{table.name}/snapshot-{progress.state}/rows-{first}"
                yield place, [_STATE, table.name, progress.state, first, last], weight
        for number in range(progress.next_before, progress.next):
            snapshot = table.snapshot(number)
            rows = table.rows_of(snapshot)
            parts = table.parts(snapshot, max(1, min(tasks, rows // SMALLEST_PIECE)))
            for part in range(parts):
                weight = max(1, rows // parts)
                place = f"{table.name}/snapshot-{number}/changes"
                if parts > 1:
                    place = f"{place}-{part + 1}-of-{parts}"
                yield place, [_CHANGES, table.name, number, part, parts], weight

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        kind, *place = range_.start
        if kind == _EMPTY:
            barriers = tuple(Barrier("read-again", *name.split(".", 1)) for name in place[0])
            yield DecodedChunk(DecodeResult(), 0, 0, barriers=barriers)
            return
        name, number, first, last = place
        table = self.upstream(name)
        with lost_positions(name):
            snapshot = table.snapshot(number)
            batches = table.state(snapshot, first, last) if kind == _STATE else table.changes(snapshot, first, last)
            for batch in batches:
                yield DecodedChunk(DecodeResult([batch]), len(batch), batch.rows.nbytes)

    def at_barrier(self) -> bool:
        return self._at_barrier  # only where target tables are emptied: other changes are changes of rows

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Return about how many rows of each table follow these offsets."""
        known, behind = SourceProgress.from_json(offsets).tables, {}
        for name in self.settings.tables:
            table, progress = self.upstream(name), known.get(name)
            if progress is not None:
                behind[name] = sum(table.rows_of(snapshot) for snapshot in _from(table, progress.next))
        return behind

    def mirror(self, offsets: Offsets) -> None:
        """Move the consumers to the start of the batch that these offsets end: a restart may read it again."""
        for name, progress in SourceProgress.from_json(offsets).tables.items():
            if name in self.settings.tables:
                self._place(self.upstream(name)).keep(progress.keep)

    def _place(self, table: Upstream) -> ConsumerPlace:
        if table.name not in self._places:
            self._places[table.name] = ConsumerPlace(table.store, self.settings.consumer)
        return self._places[table.name]

    def close(self) -> None:
        self._opened.clear()
        self._places.clear()


def _from(table: Upstream, number: int) -> Iterator[Snapshot]:
    while (snapshot := table.store.snapshots.find(number)) is not None:
        yield snapshot
        number += 1


def _pieces(rows: Sequence[int], progress: TableProgress, tasks: int) -> Iterator[tuple[int, int, int]]:
    """Yield the splits of a batch as ranges of their numbers, with the rows of each range."""
    chosen = range(progress.done_before, progress.done)
    size = max(SMALLEST_PIECE, -(-sum(rows[number] for number in chosen) // max(1, tasks)))
    first, weight = chosen.start, 0
    for number in chosen:
        weight += rows[number]
        if weight >= size or number == chosen.stop - 1:
            yield first, number + 1, max(1, weight)
            first, weight = number + 1, 0
