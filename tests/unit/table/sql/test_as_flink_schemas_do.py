"""Changes of columns by Flink SQL, and the rows that are read afterwards: those of files from before are converted."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pytest

from tests.unit.table.sql.steps import Refused, Step, check_case

pytestmark = pytest.mark.slow

NESTED = {
    f"members of rows, arrays and maps in {form}": (
        "CREATE TABLE t (id INT, r ROW(a INT, b ROW(c STRING, d INT NOT NULL)), l ARRAY<ROW(a INT, b STRING)>, "
        f"m MAP<INT, ROW<a STRING, b INT>>, PRIMARY KEY (id) NOT ENFORCED) WITH ('file.format' = '{form}')",
        "INSERT INTO t VALUES (1, ROW(5, ROW('x', 50)), [ROW(6, 'six')], MAP {7: ROW('seven', 70)})",
        "ALTER TABLE t MODIFY (r ROW(a BIGINT, b ROW(e DOUBLE, d INT), f STRING), "
        "l ARRAY<ROW(a BIGINT, b STRING, c STRING)>, m MAP<INT, ROW<c DOUBLE, b INT>>)",
        "INSERT INTO t VALUES (2, ROW(5000000000, ROW(0.5, NULL), 'y'), [ROW(6000000000, 's', 't')], "
        "MAP {8: ROW(1.5, 80)})",
        ("SELECT id, r.a, r.b.e, r.b.d, r.f FROM t", [(1, 5, None, 50, None), (2, 5000000000, 0.5, None, "y")]),
        ("SELECT l[1].a, l[1].c FROM t", [(6, None), (6000000000, "t")]),
        ("SELECT id, m[7].b, m[8].c FROM t", [(1, 70, None), (2, None, 1.5)]),
        # A member that has the name of one that was removed is another one: it has no old values.
        "ALTER TABLE t MODIFY r ROW(a BIGINT, b ROW(e DOUBLE, c STRING, d INT), f STRING)",
        ("SELECT id, r.b.c FROM t", [(1, None), (2, None)]),
        "CALL sys.compact('default.t')",
        ("SELECT id, r.a, r.b.d, r.f FROM t", [(1, 5, 50, None), (2, 5000000000, None, "y")]),
        ("ALTER TABLE t MODIFY r ROW(a BIGINT, b INT, f STRING)", Refused("'r.b' cannot become INT: it is ROW<")),
        ("ALTER TABLE t MODIFY r ROW(f STRING, a BIGINT)", Refused("cannot change their order")),
        ("ALTER TABLE t MODIFY l ARRAY<ROW(a BIGINT NOT NULL, b STRING)>", Refused("'l.element.a' is nullable")),
        ("ALTER TABLE t MODIFY m MAP<BIGINT, ROW<c DOUBLE, b INT>>", Refused("'m' cannot become MAP<BIGINT")),
    )
    for form in ("parquet", "avro", "orc")
}
MOMENT = datetime(2021, 5, 6, 7, 8, 9, 123456)
CASTS: dict[str, tuple[Step, ...]] = {
    name: (
        f"CREATE TABLE t ({columns})",
        f"INSERT INTO t VALUES ({values})",
        f"ALTER TABLE t MODIFY ({types})",
        ("SELECT * FROM t", [row]),
    )
    for name, columns, values, types, row in [
        (
            "numbers",
            "a TINYINT, b INT, c DOUBLE, d DECIMAL(10, 4), e BIGINT",
            "7, 300, 2.75, 9.8765, 1",
            "a BIGINT, b TINYINT, c INT, d DECIMAL(10, 2), e BOOLEAN",
            (7, 44, 2, Decimal("9.88"), True),
        ),
        (
            "numbers to texts",
            "a INT, b DECIMAL(8, 3), c BOOLEAN, d DOUBLE",
            "77, 12.345, false, 0.5",
            "a STRING, b VARCHAR(5), c STRING, d CHAR(5)",
            ("77", "12.34", "false", "0.5  "),
        ),
        (
            "texts",
            "a VARCHAR(9), b CHAR(3), c VARCHAR(9), d STRING",
            "'orchard', 'elm', 'fir', 'yes'",
            "a VARCHAR(3), b CHAR(5), c VARBINARY(2), d BOOLEAN",
            ("orc", "elm  ", b"fi", True),
        ),
        (
            "texts to numbers and times",
            "a STRING, b STRING, c STRING, d STRING, e STRING",
            "'8', '4.25', '2021-05-06', '07:08:09', '2021-05-06 07:08:09.123456'",
            "a INT, b DECIMAL(4, 2), c DATE, d TIME, e TIMESTAMP(3)",
            (8, Decimal("4.25"), date(2021, 5, 6), time(7, 8, 9), MOMENT.replace(microsecond=123000)),
        ),
        (
            "times",
            "a TIMESTAMP(6), b TIMESTAMP(6), c DATE, d TIMESTAMP(6), e TIME",
            f"'{MOMENT}', '{MOMENT}', '2021-05-06', '{MOMENT}', '07:08:09'",
            "a TIMESTAMP(3), b STRING, c TIMESTAMP(3), d TIMESTAMP_LTZ(6), e TIMESTAMP(3)",
            (
                MOMENT.replace(microsecond=123000),
                "2021-05-06 07:08:09.123456",
                datetime(2021, 5, 6),
                MOMENT.replace(tzinfo=UTC),
                datetime(1970, 1, 1, 7, 8, 9),
            ),
        ),
    ]
}
CHANGES: dict[str, tuple[Step, ...]] = {
    "columns are added, dropped and moved": (
        "CREATE TABLE t (a STRING PRIMARY KEY NOT ENFORCED, b DOUBLE)",
        "INSERT INTO t VALUES ('x', 1.5)",
        "ALTER TABLE t ADD c INT AFTER a",
        "ALTER TABLE t ADD (d INT, e BOOLEAN FIRST)",
        ("SELECT * FROM t", [(None, "x", None, 1.5, None)]),
        "ALTER TABLE t MODIFY b DOUBLE AFTER e",
        "ALTER TABLE t DROP (c, d)",
        ("SELECT * FROM t", [(None, 1.5, "x")]),
        ("ALTER TABLE t ADD b INT", Refused("there is a column 'b' already")),
        ("ALTER TABLE t ADD z INT NOT NULL", Refused("add it as nullable")),
        ("ALTER TABLE t ADD z INT AFTER nothing", Refused("no column 'nothing'")),
        ("ALTER TABLE t DROP a", Refused("a primary key column cannot be dropped")),
        ("ALTER TABLE t RENAME nothing TO z", Refused("no column 'nothing'")),
        ("ALTER TABLE t RENAME a TO b", Refused("there is a column 'b' already")),
        ("ALTER TABLE t MODIFY b DOUBLE AFTER b", Refused("before or after itself")),
    ),
    "columns become nullable and NOT NULL": (
        "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v STRING NOT NULL)",
        ("INSERT INTO t VALUES (1, NULL)", Refused("NOT NULL")),
        "ALTER TABLE t MODIFY v STRING",
        "INSERT INTO t VALUES (1, NULL)",
        ("ALTER TABLE t MODIFY v STRING NOT NULL", Refused("alter-column-null-to-not-null.disabled")),
        "ALTER TABLE t MODIFY id INT",
        ("ALTER TABLE t MODIFY id INT NULL", Refused("a primary key column cannot be made nullable")),
    ),
    "casts that lose digits can be forbidden": (
        "CREATE TABLE t (v INT) WITH ('disable-explicit-type-casting' = 'true')",
        ("ALTER TABLE t MODIFY v SMALLINT", Refused("disable-explicit-type-casting")),
        "ALTER TABLE t MODIFY v BIGINT",
        "ALTER TABLE t SET ('disable-explicit-type-casting' = 'false')",
        "ALTER TABLE t MODIFY v INT",
    ),
    "a text that is no number is refused when it is read": (
        "CREATE TABLE t (v STRING)",
        "INSERT INTO t VALUES ('pear')",
        "ALTER TABLE t MODIFY v INT",
        ("SELECT * FROM t", Refused("'pear' cannot be read as INT")),
        ("ALTER TABLE t MODIFY v ARRAY<INT>", Refused("'v' cannot become ARRAY<INT>: it is INT")),
    ),
    "options that rows depend on": (
        "CREATE TABLE t (a INT, b INT)",
        "ALTER TABLE t SET ('primary-key' = 'a', 'bucket' = '1', 'merge-engine' = 'first-row')",
        "INSERT INTO t VALUES (1, 10), (2, 20), (1, 11)",
        ("SELECT * FROM t", [(1, 10), (2, 20)]),
        ("ALTER TABLE t SET ('merge-engine' = 'deduplicate')", Refused("merge-engine cannot change")),
        ("ALTER TABLE t SET ('bucket' = '-1')", Refused("bucket cannot change from 1 to -1")),
        ("ALTER TABLE t RESET ('bucket')", Refused("bucket cannot be reset")),
        # Paimon allows it from false to true. Deleted rows that are not compacted yet would come back.
        ("ALTER TABLE t SET ('ignore-delete' = 'true')", Refused("rows already written depend on it")),
        ("ALTER TABLE t SET ('scan.mode' = 'sometimes')", Refused("choices are")),
        # Paimon stores any key.
        ("ALTER TABLE t SET ('no.such.option' = '1')", Refused("options that you define begin with penstock.")),
    ),
}
CASES = NESTED | CASTS | CHANGES


@pytest.mark.parametrize("case", CASES)
def test_a_change_of_the_schema_has_the_result_of_paimon(case: str, tmp_path: Path) -> None:
    check_case(tmp_path, CASES[case])
