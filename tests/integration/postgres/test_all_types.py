"""A value of any type is the same by the snapshot and by the log, also if the log has only a part of its row.

The settings of the pipeline's role, which the server applies to its sessions, change no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres
BINARY = {
    "bool": ["true", "false"],
    "int2": ["-32768", "32767"],
    "int4": ["-2147483648"],
    "int8": ["9223372036854775807", "-9223372036854775808"],
    "float4": ["NaN", "-Infinity", "1e-40", "0.1", "-0", "3.4028235e38"],
    "float8": ["Infinity", "0.1", "-0", "5e-324", "1.7976931348623157e308", "12345678901234567"],
    "numeric": ["NaN", "-Infinity", "1e100", "44e19", "99999999999999999999", "1e-18", "1e-19", "-0.000", "1e30"],
    "numeric(10,2)": ["NaN", "12345678.90", "-0.01"],
    "numeric(38,10)": ["1234567890123456789012345678.0123456789", "0.0000000001"],
    "numeric(38,38)": ["0.12345678901234567890123456789012345678"],
    "text": ["", "tab\tand\\backslash", "\\.", "\\N", "new\nline", "😀"],
    "varchar(5)": ["abc  ", ""],
    "char(5)": ["ab", "", "a b"],
    "bytea": ["\\x00ff", "", "\\x5c78"],
    "date": ["infinity", "0044-03-15 BC", "5874897-12-31", "0001-01-01", "10000-01-01"],
    "time": ["24:00", "23:59:59.999999"],
    "timestamp": ["infinity", "294276-12-31 23:59:59.999999", "4713-01-01 00:00 BC", "1969-12-31 23:59:59.999999"],
    "timestamptz": ["2024-03-31 02:30:00 Europe/Berlin", "1890-01-01 00:00 Europe/Amsterdam", "0001-01-01 00:00:00+15"],
    "uuid": ["123e4567-e89b-12d3-a456-426655440000"],
    "json": ['{"a" : 1e400, "a":2}'],
    "jsonb": ['{"b":1e400,"a":12345678901234567890.10}', "null", "-0.0"],
    "xml": ["<a>1</a>"],
    "bit(1)": ["1", "0"],
    "bit(9)": ["101010101"],
    "varbit": ["", "1", "0000000011"],
    "mood": ["it''s", "a,b"],
    "kept": ["5"],
    "int4[]": ["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[2:3]={7,8}"],
    "text[]": ['{"a,b",NULL,"NULL","","q\\"\\\\"}'],
    "numeric[]": ["{1.5,NaN,NULL}", "{1e30}", "{44e19}"],
    "date[]": ["{2024-01-01,infinity,0044-03-15 BC}"],
    "bool[]": ["{t,f,NULL}"],
    "bytea[]": ['{"\\\\x00ff",NULL}'],
    "time[]": ["{24:00,10:00}"],
    "float4[]": ["{0.1,1e-40}"],
}
TEXTS = {
    '"char"': ["a", "", "\\200"],
    "money": ["12.34", "-92233720368547758.08"],
    "name": ["abc"],
    "timetz": ["23:59:59.999999+15:59", "24:00+00"],
    "interval": ["1 year -2 days +03:04:05.678", "-1 month", "178000000 years"],
    "numeric(50,5)": ["1e44", "NaN"],
    "numeric(3,-2)": ["12300"],
    "numeric(3,5)": ["0.00123"],
    "inet": ["192.168.0.1/24", "::1"],
    "cidr": ["10.0.0.0/8"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "int4range": ["[1,5)", "empty", "(,)"],
    "tstzrange": ["[2024-01-01 00:00+02,infinity)"],
    "int4multirange": ["{[1,3),[5,7)}"],
    "point": ["(1.5,-2)"],
    "path": ["[(0,0),(1,0.1)]"],
    "circle": ["<(0,0),1.1>"],
    "tsvector": ["a:1A b:2"],
    "pair": ['(1,"a,b""c")', "(,)"],
    "interval[]": ["{1 day,-00:00:01}"],
    "money[]": ["{1.5}"],
    "timestamptz[]": ["{2024-01-01 00:00:00+02}"],
    "pair[]": ['{"(1,x)"}'],
}
SETTINGS = {
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "extra_float_digits": "-5",
    "TimeZone": "Asia/Kolkata",
    "xmlbinary": "hex",
    "search_path": "pg_catalog",
    "client_encoding": "LATIN1",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "array_nulls": "off",
}


def filled(server: PgPlayground, types: dict[str, Sequence[str]]) -> str:
    """Make and fill the table t1, and empty ones like it; return the columns."""
    server.run("CREATE TYPE mood AS ENUM ('it''s', 'a,b')", "CREATE DOMAIN kept AS numeric(5,1)")
    server.run("CREATE TYPE pair AS (a int, b text)")
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(types))
    for table in ("t1", "t2", "t3", "t4"):
        server.create(table, f"id int PRIMARY KEY, {columns}, big text")
    server.run("ALTER TABLE t3 REPLICA IDENTITY FULL", "ALTER TABLE t4 ALTER big SET STORAGE EXTERNAL")
    rows = []
    for row in range(max(map(len, types.values()))):
        cells = [f"'{values[row % len(values)]}'::{kind}" for kind, values in types.items()]
        rows.append(f"({row}, {', '.join(cells)}, repeat('x', 5000))")
    server.run(f"INSERT INTO t1 VALUES {', '.join(rows)}", f"INSERT INTO t1 (id) VALUES ({len(rows)})")
    return ", ".join(f"c{place}" for place in range(len(types)))


def cells(sync: PgSync, table: str, types: dict[str, Sequence[str]]) -> dict[str, list[str]]:
    """The cells of each column, as Arrow prints them: it has dates that Python has not."""
    found = sync.target(table).scan().to_arrow().sort_by("id")
    shown = {}
    for place, kind in enumerate(types):
        column: pa.ChunkedArray = found[f"c{place}"]
        rows = [column.slice(row, 1).combine_chunks() for row in range(len(column))]
        shown[kind] = [row.to_string(skip_new_lines=True) for row in rows]
    return shown


def captured(server: PgPlayground, folder: Path, types: dict[str, Sequence[str]]) -> dict[str, list[str]]:
    """The cells that all ways into a table agree on."""
    names = filled(server, types)
    server.run("INSERT INTO t4 SELECT * FROM t1")
    sync = PgSync(server, folder, conf=["scan.incremental.snapshot.chunk.size=3"])
    sync.run()
    server.run(
        "INSERT INTO t2 SELECT * FROM t1",
        "INSERT INTO t3 (id) SELECT id FROM t1",
        f"UPDATE t3 SET ({names}) = (SELECT {names} FROM t1 WHERE t1.id = t3.id)",
        "UPDATE t4 SET id = id + 100 WHERE id = 0",  # the log lacks the large value
        "UPDATE t4 SET id = 0 WHERE id = 100",
    )
    sync.run()
    assert [name for name, verdict in sync.verified().items() if not verdict.is_equal] == []
    read = cells(sync, "t1", types)
    for table in ("t2", "t3", "t4"):
        assert cells(sync, table, types) == read
    return read


@pytest.mark.parametrize("types", [BINARY, BINARY | TEXTS], ids=["binary log", "log of texts"])
def test_a_value_is_the_same_by_every_way(
    server: PgPlayground, tmp_path: Path, types: dict[str, Sequence[str]]
) -> None:
    usual = captured(server, tmp_path / "usual", types)
    server.start_over()
    for name, value in SETTINGS.items():
        server.run(f"ALTER ROLE cdc SET {name} = '{value}'")
    try:
        assert captured(server, tmp_path / "unusual", types) == usual
    finally:
        server.run("ALTER ROLE cdc RESET ALL")
