"""Reading the recorded logs of `tests/data/mysql/log`: one workload, on several servers with several settings."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from penstock.formats.change import ChangeBatch
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.unpack import unpacked
from tests.binlog_files import file_segments

LOGS = Path(__file__).resolve().parents[3] / "data" / "mysql" / "log"
# The others do not contain the names of columns.
NAMED = [
    *("mysql-plain", "mysql-compressed", "mysql-nochecksum"),
    *("mariadb-plain", "mariadb-compressed", "mariadb-nochecksum"),
    *("mariadb-11.8-plain", "mariadb-11.8-compressed", "mariadb-11.8-nochecksum"),
    *("mysql-8.0.12-nogtid", "mysql-8.0.33-plain", "mysql-8.0.33-compressed", "mysql-8.0.33-nochecksum"),
    *("mysql-8.0.33-nogtid", "mariadb-11.4-plain", "mariadb-11.4-compressed"),
]
# With the log of the same server that has them.
UNNAMED = {
    "mysql-minimal": "mysql-plain",
    "mariadb-nometa": "mariadb-plain",
    "mariadb-11.8-nometa": "mariadb-11.8-plain",
    "mysql-8.0.33-minimal": "mysql-8.0.33-plain",
    "mariadb-11.4-nometa": "mariadb-11.4-plain",
}
KINDS = "+I", "-U", "+U", "-D"


def batches(name: str, options: BinlogOptions, block_bytes: int = 1 << 20) -> list[ChangeBatch]:
    decoder = Decoder(options)
    return [
        batch
        for segment in file_segments(LOGS / f"{name}.000001", block_bytes=block_bytes)
        for plain in unpacked(segment, block_bytes)
        for batch in decoder.decode(plain)
    ]


def changes(found: list[ChangeBatch]) -> dict[str, list[tuple[str, dict[str, object]]]]:
    """Kind and row of every change, table by table, in the order of (pos, sub)."""
    ordered = defaultdict(list)
    for batch in found:
        rows = batch.rows.to_pylist()
        for place, row in enumerate(rows):
            key = (int(batch.positions[place]), int(batch.subs[place]))
            ordered[str(batch.schema.table)].append((key, KINDS[batch.kinds[place]], row))
    return {
        table: [(kind, row) for _, kind, row in sorted(rows, key=lambda row: row[0])] for table, rows in ordered.items()
    }
