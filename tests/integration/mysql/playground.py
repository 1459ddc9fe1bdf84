"""A real server under test: statements on one side, our readers on the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pymysql

from penstock.formats.change import ChangeBatch
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_plan import LogPlan, PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.plan import plan_log
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.ddl.history import SchemaHistory
from penstock.ingest.mysql.definition import TableDefinition
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.read_range import read_range
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.catalog import definitions as catalog_definitions
from penstock.ingest.mysql.server.connection import connected, current_position, server_facts
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, read_chunk
from tests.integration.mysql.zones import zone_statements

DATABASE = "play"
Row = tuple[str, int, dict[str, object]]


class Playground:
    def __init__(self, flavour: str, port: int) -> None:
        self.flavour = flavour
        self.port = port
        self.address = ServerAddress(
            "127.0.0.1", port, "cdc", Secret("cdc"), Tls("disabled", public_key_retrieval=True)
        )
        self._root = self.connect()

    @property
    def is_mariadb(self) -> bool:
        return self.flavour == "mariadb"

    def connect(self, user: str = "root", password: str = "", database: str | None = None) -> pymysql.Connection:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            read_timeout=300,
            write_timeout=300,
        )

    def start_over(self) -> None:
        """An empty database of ours and a new log file."""
        self._root = self.connect()
        self.run(
            "SET sql_mode = '', time_zone = '+00:00'",
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
            f"USE {DATABASE}",
            "FLUSH BINARY LOGS",
        )

    def run(self, *statements: str | bytes) -> None:
        with self._root.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)  # type: ignore[arg-type]

    def rows(self, sql: str) -> tuple:
        with self._root.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def here(self) -> LogPosition:
        with connected(self.address) as connection:
            position = current_position(connection, server_facts(connection))
        assert position is not None
        return position

    def declared(self, table: str, column: str) -> str:
        return str(self.rows(f"SHOW COLUMNS FROM {table} LIKE '{column}'")[0][1])

    def definitions(self, *tables: str) -> Fixed:
        with connected(self.address) as connection:
            return Fixed(catalog_definitions(connection, [(DATABASE, table) for table in tables]))

    def load_zone(self, zone: str) -> None:
        """Make a named zone known to the server, out of this machine's own zone files."""
        if not self.rows(f"SELECT COUNT(*) FROM mysql.time_zone_name WHERE Name = '{zone}'")[0][0]:
            self.run(*zone_statements(zone))

    def log_since(self, start: LogPosition, options: BinlogOptions | None = None) -> list[ChangeBatch]:
        """Everything logged from a position to the end, over the network."""
        decoder = Decoder(options or BinlogOptions())
        with dumping(self.address, DumpRequest(start, 6001)) as segments:
            return [
                batch for segment in segments for plain in unpacked(segment, 1 << 20) for batch in decoder.decode(plain)
            ]

    def plans(self, start: LogPosition, limits: PlanLimits, history: SchemaHistory | None = None) -> list[LogPlan]:
        """One plan after another until the log has no more."""
        known = history or SchemaHistory(mariadb=self.is_mariadb)
        plans = [plan_log(self.address, start, limits, 6002, known)]
        while not plans[-1].caught_up:
            plans.append(plan_log(self.address, plans[-1].end, limits, 6002, known))
        return plans

    def read(self, plans: Iterable[LogPlan], options: BinlogOptions | None = None) -> list[Row]:
        """The rows of all ranges, each by its own connection, in order."""
        rows: list[Row] = []
        for number, part in enumerate(part for plan in plans for part in plan.ranges):
            batches = read_range(self.address, part, options or BinlogOptions(), 6010 + number % 50)
            rows += in_order(batches)
        return rows

    def snapshot(self, table: str, options: SnapshotOptions | None = None) -> pa.Table:
        batches = list(read_chunk(self.address, Chunk(DATABASE, table, 0), options or SnapshotOptions()))
        return pa.Table.from_batches([batch.rows for batch in batches])


@dataclass(frozen=True)
class Fixed:
    """Definitions that never change."""

    tables: Mapping[tuple[str, str], TableDefinition]

    def definition_at(self, name: tuple[str, str], file: str, pos: int, *, named: bool) -> TableDefinition | None:
        return self.tables.get(name)

    def is_skipped(self, name: tuple[str, str], file: str, pos: int) -> bool:
        return False


def in_order(batches: Iterable[ChangeBatch]) -> list[Row]:
    """(table, kind, row) of every change of one log file, in the log's order."""
    rows = []
    for batch in batches:
        for place, row in enumerate(batch.rows.to_pylist()):
            key = (int(batch.positions[place]), int(batch.subs[place]))
            rows.append((key, str(batch.schema.table), int(batch.kinds[place]), row))
    return [row[1:] for row in sorted(rows, key=lambda row: row[0])]


def insertions(batches: Iterable[ChangeBatch], table: str) -> pa.Table:
    """The inserted rows of one table as one Arrow table."""
    found = [batch for batch in batches if batch.schema.table == table]
    assert all((batch.kinds == 0).all() for batch in found)
    return pa.Table.from_batches([batch.rows for batch in found])
