"""The rows of tables as DuckDB reads them: at one snapshot, with columns and filters pushed down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, PenstockError
from penstock.table.catalog.base import on_branch, parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.meta.snapshot import Snapshot
from penstock.table.options.scans import POINT_KEYS, RANGE_KEYS, SCAN_MODE
from penstock.table.read.duckdb_columns import distinct_rows
from penstock.table.read.filter import RowFilter
from penstock.table.read.lazy_dataset import LazyDataset, Rows
from penstock.table.sql.queries.global_tables import global_table, is_global
from penstock.table.sql.queries.session_reads import reads_of
from penstock.table.system.tables import followed_options, has_own_rows

_ROWS = POINT_KEYS | RANGE_KEYS | {SCAN_MODE.key}  # the options that choose the rows of a read


@dataclass(slots=True)
class TableRows:
    """The rows of the tables of a catalog.

    `read_options` are those that the session sets, for reads of all tables or of some: they apply below the options of
    a read. `failure` is the error that a read ended with: DuckDB converts errors raised while it reads to text.
    """

    catalog: Catalog
    catalog_name: str
    read_options: Mapping[str, str]
    failure: PenstockError | OSError | None = None

    def of(
        self, place: tuple[str, str], options: Mapping[str, str], snapshot: Snapshot | None = None
    ) -> pa.Table | LazyDataset:
        """Return the dataset DuckDB reads for a table, at a snapshot or at the newest one.

        It reads only the columns and files a query needs, when the query runs.
        """
        named, options = on_branch(place[1], options)
        place = (place[0], named)
        base, branch, system = parse_name(named)
        if is_global(place) and not self.catalog.backend.has_table(".".join(place)):
            return global_table(self.catalog, place)
        table = self.catalog.table(".".join(place))
        branched = (place[0], base if branch is None else f"{base}$branch_{branch}")
        if system == "audit_log" and self._read_options(branched, options).keys() & RANGE_KEYS:
            return self.of(branched, options)  # changes with their kinds are this table's rows
        if system is not None:
            return table.scan(options=self._read_options(place, options)).to_arrow()
        if snapshot is not None:
            # The rows that a statement changes are read without the session's options, which may name older ones.
            scan = replace(table.scan(), snapshot=snapshot)
        else:
            scan = table.scan(options=self._read_options(place, options)).at_one_snapshot()

        schema = scan.schema

        def rows(columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
            # A filter that a scan cannot evaluate is refused here, and Arrow then filters all rows.
            condition = None if where is None else RowFilter.of(where, schema, table.name)
            chosen = None if columns is None else tuple(columns)
            if scan.between is not None:
                return scan.to_batches()
            return replace(scan, columns=chosen, where=condition).to_batches()

        return self.dataset(schema, rows, table.name)

    def reads_newest(self, place: tuple[str, str], mentioned: tuple[str, str], options: Mapping[str, str]) -> bool:
        """Return whether a mention with these options reads the newest rows of a table or of its branch."""
        name, options = on_branch(mentioned[1], options)
        base, branch, system = parse_name(name)
        own = base if branch is None else f"{base}$branch_{branch}"
        if (mentioned[0], own) != place or not (system is None or has_own_rows(system)):
            return False
        given = self._read_options((mentioned[0], name), options)
        scan = self.catalog.table(".".join(place)).scan(options=given)
        return not scan.travel.travels and scan.between is None

    def session_reads(self, place: tuple[str, str]) -> dict[str, str]:
        """Return the options that the session sets for reads of a table, given as its database and its name."""
        database, name = place
        return reads_of(self.read_options, (self.catalog_name, database, parse_name(name)[0]))

    def _read_options(self, place: tuple[str, str], options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of a read. One that names a snapshot reads it, whatever the session has set."""
        session, system = self.session_reads(place), parse_name(place[1])[2]
        if system is not None:
            session = followed_options(system, session)
        if options.keys() & _ROWS:
            session = {name: text for name, text in session.items() if name not in _ROWS}
        return {**session, **options}

    def dataset(self, schema: pa.Schema, rows: Rows, table: str | None = None) -> LazyDataset:
        """Return rows as DuckDB reads them; an error while they are read is remembered as `failure`."""
        schema, rows = distinct_rows(schema, rows, table)
        return LazyDataset(schema, self.watched(rows))

    def watched(self, rows: Rows) -> Rows:
        """Return the same rows; an error while they are read is remembered as `failure`."""
        return lambda columns, where: self._begun(rows, columns, where)

    def _begun(
        self, rows: Rows, columns: Sequence[str] | None, where: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            return self._watched(rows(columns, where))
        except ConfigError:
            raise  # of the filter: whoever asks for the rows asks again without it
        except (PenstockError, OSError) as failure:
            self.failure = failure
            raise

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except (PenstockError, OSError) as failure:
            self.failure = failure
            raise
