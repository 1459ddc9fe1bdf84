"""Only the needed columns and rows are selected from a PostgreSQL server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.formats.change import ChangeBatch
from penstock.formats.demand import DemandPolicy
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.catalog import list_tables
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.snapshot.chunks import first_chunk, read_chunk
from penstock.pipelines.api.verify import Verification
from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from tests.here import Log, run
from tests.integration.postgres.sync import DATABASE, PgPlayground
from tests.row_conditions import RandomFilters, compare_reads

pytestmark = pytest.mark.postgres
ODD = (
    "id int PRIMARY KEY, small smallint, big bigint, price numeric(10, 2), any_price numeric, ratio float8,"
    " single float4, flag bool, name text, folded text COLLATE nocase, label char(8), short varchar(9), kind mood,"
    " note citext, day date, at timestamp(3), stamp timestamptz, code uuid, tags text[]"
)
ROWS = (
    "(1, 1, 9007199254740993, 19.99, 1.0000000001, 0.1, 0.1, true, 'Paid', 'Paid', 'a', 'é', 'New', 'x', '2024-02-29',"
    " '2024-02-29 10:00:00.5', '2024-02-29 10:00:00.5+00', gen_random_uuid(), '{a}')",
    "(2, 2, -1, 'NaN', 'NaN', 'NaN', 'NaN', false, 'paid', 'paid', 'A ', 'É', 'paid', 'X ', 'infinity', '-infinity',"
    " 'infinity', NULL, NULL)",
    "(3, 32767, 5, -19.99, -1, '-0', 16777217, NULL, 'paid ', 'PAID', NULL, 'e', 'ä', 'X', '0044-03-15 BC',"
    " '0001-01-01 00:00:00', '2024-02-29 18:00:00+08', NULL, '{}')",
    "(4, NULL, NULL, NULL, NULL, 'Infinity', '-Infinity', true, NULL, NULL, 'ß', NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL, NULL)",
    "(5, 0, 0, 0, 20, 19.99, 19.99, false, 'straße', '', 'ss', 'o''b\\', 'New', '', '1999-12-31',"
    " '9999-12-31 23:59:59.999', '2024-02-28 23:59:59.999999+00', gen_random_uuid(), NULL)",
)
FILTERS = RandomFilters(
    {
        "id": ["1", "3", "2.5", "-1"],
        "small": ["1", "32767", "0", "1.5"],
        "big": ["9007199254740993", "9007199254740992", "5", "-1"],
        "price": ["19.99", "20", "-19.99", "0", "19.985"],
        "any_price": ["1", "1.0000000001", "20"],
        "ratio": ["0.1", "1.5", "0", "19.99"],
        "single": ["0.1", "16777216", "1.5"],
        "name": ["'paid'", "'PAID'", "'paid '", "'straße'", "''"],
        "folded": ["'paid'", "'PAID'", "''"],
        "label": ["'a'", "'a       '", "'A'", "'ss'"],
        "short": ["'é'", "'É'", "'e'", "'o''b\\'"],
        "kind": ["'New'", "'new'", "'ä'", "'none of them'"],
        "note": ["'x'", "'X'", "''"],
        "day": ["'2024-02-29'", "'1999-12-31'", "cast('2024-01-01' as date)"],
        "at": ["'2024-02-29'", "'2024-02-29 10:00:00.5'", "'9999-12-31 23:59:59.999'"],
        "stamp": ["'2024-02-29 10:00:00.5'", "'2024-02-29'", "'2024-02-28 23:59:59.999999'"],
    },
    flags=("flag",),
    others=("char_length(name) > 4", "name like 'p%'", "code is null", "tags is not null", "id > big"),
)


def test_the_server_and_the_pipeline_pass_the_same_rows(server: PgPlayground) -> None:
    server.run(
        "CREATE EXTENSION citext",
        "CREATE TYPE mood AS ENUM ('New', 'paid', 'ä')",
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    )
    server.create("odd", ODD)
    server.run(f"INSERT INTO odd VALUES {', '.join(ROWS)}")
    address = PgAddress("127.0.0.1", server.port, "cdc", "cdc", DATABASE)
    with connected(address) as connection:
        facts = next(table for table in list_tables(connection) if table.table == "odd")
        chunk = first_chunk(connection, facts)
    assert chunk is not None

    def read(policy: DemandPolicy | None) -> Iterator[ChangeBatch]:
        return read_chunk(address, chunk, Counter(), policy)

    asked, all_read = compare_reads(FILTERS, read, count=60, seed=1)
    assert asked < all_read * 0.75, "most conditions are applied by the server"


FILE = """
pipeline: {name: shop}
source:
  type: postgres
  hostname: 127.0.0.1
  port: PORT
  username: few
  password: few
  database-name: play
  slot.name: few_slot
  tables: [public.orders]
  snapshot: {mode: MODE}
transform:
  - source-table: public.orders
    projection: PROJECTION
    filter: status = 'paid' and amount > 0
sink: {catalog: {warehouse: "WAREHOUSE"}, database: ods, table-options: {bucket: 1}}
"""


def pipeline_file(server: PgPlayground, folder: Path, projection: str = "id, note", mode: str = "auto") -> Path:
    path, text = folder / "shop.yaml", FILE
    words = {"PORT": str(server.port), "MODE": mode, "PROJECTION": projection, "WAREHOUSE": str(folder / "warehouse")}
    for word, value in words.items():
        text = text.replace(word, value)
    path.write_text(text)
    return path


@pytest.fixture
def orders(server: PgPlayground) -> PgPlayground:
    server.run(
        "CREATE TABLE orders (secret text NOT NULL, id int PRIMARY KEY, status text, amount int, note text)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "ALTER TABLE orders ALTER secret SET STORAGE EXTERNAL",
        "INSERT INTO orders VALUES (repeat('x', 9000), 1, 'paid', 5, 'a'), ('s', 2, 'PAID', 5, 'b'),"
        " (repeat('y', 9000), 3, 'paid', 0, 'c')",
        "CREATE PUBLICATION few_slot_pub FOR TABLE orders",
        "DROP ROLE IF EXISTS few",
        "CREATE ROLE few LOGIN REPLICATION PASSWORD 'few'",
        "ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM few",
        "GRANT SELECT (id, status, note) ON orders TO few",
    )
    return server


@pytest.mark.parametrize("mode", ["watermark", "exact"])
def test_rights_on_some_columns_suffice(
    orders: PgPlayground, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    server, path = orders, pipeline_file(orders, tmp_path, "'*, null as secret'", mode=mode)
    assert main(["check", str(path)]) != 0
    said = capsys.readouterr().out
    assert "the user may not read columns of public.orders: amount, wanted SELECT" in said
    assert 'GRANT SELECT ("amount") ON "public"."orders" TO "few"' in said
    server.run("GRANT SELECT (amount) ON orders TO few")
    assert main(["check", str(path)]) == 0
    lines = capsys.readouterr().out
    assert "selects 4 of 5 columns: amount, id, note, status" in lines
    assert """selects rows where ("status" = E'paid' AND "amount" > 0)""" in lines
    spec = yaml_file.load(path)
    run(spec)
    table = Catalog(f"{tmp_path}/warehouse").table("ods.orders")

    def found() -> dict[int, str]:
        return {row["id"]: row["note"] for row in table.scan().to_arrow().to_pylist()}

    assert found() == {1: "a"}
    server.run(
        "UPDATE orders SET status = 'sent' WHERE id = 1",
        "UPDATE orders SET status = 'paid', note = 'B' WHERE id = 2",
        "UPDATE orders SET amount = 9 WHERE id = 3",
    )
    run(spec)
    assert found() == {2: "B", 3: "c"}
    server.run("UPDATE orders SET note = 'C' WHERE id = 3")
    source = connector(spec).comparable(spec.source, request_of(spec))
    mapping = build.mapping_of(spec, CatalogSettings.of(spec.sink.catalog.warehouse, {}))
    log = Log.at(Path(spec.checkpoint) / "log.json")
    assert source is not None
    (verdict,) = Verification(spec.pipeline.name, source, mapping, log.ends[log.done - 1]).verdicts()
    assert verdict.is_equal, verdict


def test_condition_on_a_column_without_a_right_is_reported(orders: PgPlayground, tmp_path: Path) -> None:
    orders.run("GRANT SELECT (amount) ON orders TO few")
    path = pipeline_file(orders, tmp_path, "'*, null as secret'")
    spec = yaml_file.load(path)
    run(spec)
    table = Catalog(f"{tmp_path}/warehouse").table("ods.orders")
    table.delete("id > 0")
    folder = CheckpointFolder(spec.checkpoint)
    folder.signal(f"{SNAPSHOT_REQUEST}1.json", ["orders"], "secret = 'x'")
    run(spec)
    [refused] = Log.at(Path(spec.checkpoint) / "log.json").ends[-1]["refused"]
    assert refused.startswith("public.orders where secret = 'x'")
    assert "permission denied" in refused
    assert table.scan().to_arrow().num_rows == 0
    # A column of the filter that the transform does not write may be used.
    folder.signal(f"{SNAPSHOT_REQUEST}2.json", ["orders"], "amount > 0 and note = 'a'")
    run(spec)
    assert table.scan().to_arrow()["id"].to_pylist() == [1]


def test_long_values_of_columns_that_may_not_be_read_are_not_looked_up(orders: PgPlayground, tmp_path: Path) -> None:
    path = pipeline_file(orders, tmp_path)
    path.write_text(path.read_text().replace("    filter: status = 'paid' and amount > 0\n", ""))
    orders.run("ALTER TABLE orders REPLICA IDENTITY DEFAULT")
    spec = yaml_file.load(path)
    run(spec)
    # An update does not log the long value of another column.
    orders.run("UPDATE orders SET note = 'A' WHERE id = 1")
    run(spec)
    table = Catalog(f"{tmp_path}/warehouse").table("ods.orders")
    assert table.scan().to_arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "note": ["A", "b", "c"]}
