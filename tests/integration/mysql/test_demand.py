"""Only the needed columns and rows are selected from a MySQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.formats.change import ChangeBatch
from penstock.formats.demand import DemandPolicy
from penstock.ingest.mysql.shown_times import in_zone
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, read_chunk
from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from tests.here import run
from tests.integration.mysql.playground import DATABASE, Playground
from tests.row_conditions import RandomFilters, compare_reads

ODD = (
    "CREATE TABLE odd (id INT PRIMARY KEY, small SMALLINT UNSIGNED, big BIGINT, huge BIGINT UNSIGNED,"
    " price DECIMAL(10, 2), long_price DECIMAL(30, 10), ratio DOUBLE, single FLOAT, flag TINYINT(1), bits BIT(1),"
    " name VARCHAR(20) COLLATE utf8mb4_general_ci, label CHAR(8), old VARCHAR(9) CHARACTER SET latin1,"
    " kind ENUM('New', 'paid', 'ä'), note TEXT, day DATE, day_there DATE NOT NULL, at DATETIME(3),"
    " stamp TIMESTAMP(6) NULL DEFAULT NULL, clock TIME, year_ YEAR)"
)
ROWS = (
    "(1, 1, 9007199254740993, 18446744073709551615, 19.99, 1.0000000001, 0.1, 0.1, 1, b'1', 'Paid', 'a', 'é', 'New',"
    " 'x', '2024-02-29', '2024-02-29', '2024-02-29 10:00:00.5', '2024-02-29 10:00:00.5', '10:00:00', 2024)",
    "(2, 2, -1, 0, 20, 20, 1.5, 1.5, 0, b'0', 'paid', 'A ', 'É', 'paid', 'X ', '0000-00-00', '0000-00-00',"
    " '0000-00-00', NULL, '99:00:00', 1970)",
    "(3, 65535, 5, 5, -19.99, -1, -0.0, 16777217, 2, NULL, 'paid ', NULL, 'e', 'ä', 'X', '2020-00-10', '2020-01-00',"
    " '2020-02-00 01:00:00', '1980-01-01 00:00:00', NULL, NULL)",
    "(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, b'1', NULL, 'ß', NULL, NULL, NULL, NULL, '1999-12-31', NULL,"
    " '2024-03-01 00:00:00', '-10:00:00', 2069)",
    "(5, 0, 0, 9, 0, 0, 19.99, 19.99, 0, b'0', 'straße', 'ss', 'o''b\\\\', 'New', '', '0099-01-01', '2024-01-01',"
    " '9999-12-31 23:59:59.999', '2024-02-29 23:59:59.999999', '00:00:00', 1999)",
)
FILTERS = RandomFilters(
    {
        "id": ["1", "3", "2.5", "-1"],
        "small": ["1", "65535", "0", "1.5", "-3"],
        "big": ["9007199254740993", "9007199254740992", "5", "-1"],
        "huge": ["9223372036854775807", "5"],
        "price": ["19.99", "20", "-19.99", "0", "19.985"],
        "long_price": ["1", "1.0000000001", "20"],
        "ratio": ["0.1", "1.5", "0", "19.99"],
        "single": ["0.1", "16777216", "1.5"],
        "name": ["'paid'", "'PAID'", "'paid '", "'strasse'", "'straße'", "''"],
        "label": ["'a'", "'A '", "'A'", "'ss'", "'ß'"],
        "old": ["'é'", "'É'", "'e'", "'o''b\\'"],
        "kind": ["'New'", "'new'", "'ä'", "'none of them'"],
        "note": ["'x'", "'X'", "'X '", "''"],
        "day": ["'2024-02-29'", "'2020-01-01'", "'0099-01-01'", "cast('2024-01-01' as date)"],
        "day_there": ["'2024-02-29'", "'2020-01-01'"],
        "at": ["'2024-02-29'", "'2024-02-29 10:00:00.5'", "'9999-12-31 23:59:59.999'"],
        "stamp": ["'2024-02-29 10:00:00.5'", "'2024-02-29'", "'2024-03-01'", "'1980-01-01 08:00:00'"],
    },
    flags=("flag", "bits"),
    others=(
        "char_length(name) > 4",
        "name like 'p%'",
        "year_ > 1999",
        "clock is null",
        "year_ is not null",
        "id > big",
    ),
)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_the_server_and_the_pipeline_pass_the_same_rows(server: Playground, zone: str) -> None:
    server.run(ODD, f"INSERT INTO odd VALUES {', '.join(ROWS)}")

    def read(policy: DemandPolicy | None) -> Iterator[ChangeBatch]:
        options = SnapshotOptions(demand=policy, zone=zone)
        return (in_zone(option, zone) for option in read_chunk(server.address, Chunk(DATABASE, "odd", 0), options))

    asked, all_read = compare_reads(FILTERS, read, count=60, seed=len(zone))
    assert asked < all_read * 0.75, "most conditions are applied by the server"


FILE = """
pipeline: {name: shop}
source:
  type: mysql
  hostname: 127.0.0.1
  port: PORT
  username: few
  password: few
  ssl: {mode: disabled, allow-public-key-retrieval: true}
  tables: [play.orders]
  snapshot: {mode: MODE}
transform:
  - source-table: play.orders
    projection: PROJECTION
    filter: status = 'paid' and amount > 0
sink: {catalog: {warehouse: "WAREHOUSE"}, database: ods, table-options: {bucket: 1}}
"""


def pipeline_file(server: Playground, folder: Path, projection: str = "id, note, vip", mode: str = "auto") -> Path:
    path = folder / "shop.yaml"
    words = {"PORT": str(server.port), "MODE": mode, "PROJECTION": projection, "WAREHOUSE": str(folder / "warehouse")}
    text = FILE
    for word, value in words.items():
        text = text.replace(word, value)
    path.write_text(text)
    return path


@pytest.fixture
def orders(server: Playground) -> Iterator[Playground]:
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.run(
        "SET GLOBAL binlog_row_metadata = FULL",
        "CREATE TABLE orders (secret INT NOT NULL, id INT PRIMARY KEY, status VARCHAR(9), amount INT, vip BOOLEAN,"
        " note TEXT)",
        "INSERT INTO orders VALUES (7, 1, 'paid', 5, 1, 'a'), (7, 2, 'PAID', 5, 0, 'b'), (7, 3, 'paid', 0, 1, 'c')",
        "DROP USER IF EXISTS few@'%'",
        "CREATE USER few@'%' IDENTIFIED BY 'few'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO few@'%'",
        "GRANT SELECT (id, status, note, vip) ON play.orders TO few@'%'",
    )
    yield server
    server.run(f"SET GLOBAL binlog_row_metadata = '{before}'", "DROP USER few@'%'")


@pytest.mark.parametrize("mode", ["watermark", "exact"])
def test_rights_on_some_columns_suffice(
    orders: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    server, path = orders, pipeline_file(orders, tmp_path, mode=mode)
    assert main(["check", str(path)]) != 0
    said = capsys.readouterr().out
    assert "columns of play.orders may not be read, or do not exist: amount, wanted SELECT" in said
    assert "GRANT SELECT (`amount`) ON `play`.`orders` TO 'few'@'%'" in said
    assert said.count("error  ") == 1, "the missing right is named once, and not as a column that does not exist"
    server.run("GRANT SELECT (amount) ON play.orders TO few@'%'")
    main(["check", str(path)])
    assert "selects rows where (`status` = _utf8mb4 X'70616964' AND `amount` > 0)" in capsys.readouterr().out
    assert main(["plan", str(path)]) == 0
    assert "the snapshot of play.orders selects rows where" in capsys.readouterr().out
    spec = yaml_file.load(path)
    run(spec)
    table = Catalog(f"{tmp_path}/warehouse").table("ods.orders")
    assert rows_of(table) == [{"id": 1, "note": "a", "vip": True}]
    server.run(
        "UPDATE orders SET status = 'sent' WHERE id = 1",
        "UPDATE orders SET status = 'paid', note = 'B' WHERE id = 2",
        "UPDATE orders SET amount = 9 WHERE id = 3",
        "ALTER TABLE orders DROP COLUMN secret, ADD COLUMN other INT",
        "INSERT INTO orders (id, status, amount, vip, note) VALUES (4, 'paid', 1, 0, 'd')",
    )
    run(spec)
    assert rows_of(table) == [
        {"id": 2, "note": "B", "vip": False},
        {"id": 3, "note": "c", "vip": True},
        {"id": 4, "note": "d", "vip": False},
    ]


def test_all_columns_need_a_right_on_the_table(
    orders: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(pipeline_file(orders, tmp_path, "'*, upper(note) as loud'"))]) != 0
    assert "list the columns in the projection of a transform" in capsys.readouterr().out
    orders.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    assert main(["check", str(pipeline_file(orders, tmp_path))]) != 0
    assert "the binlog contains no column names, and the user sees only some columns" in capsys.readouterr().out


def rows_of(table: Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
