"""The catalog: databases and tables by name, made once, changed by compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.conditional_create import StoreUnsafe
from penstock.storage.local import LocalStorage
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.meta.store import TableMissing
from penstock.table.schema.new_schema import create_schema

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> penstock.Catalog:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    return catalog


def test_databases_are_created_once_and_listed(catalog: penstock.Catalog) -> None:
    catalog.create_database("shop", ignore_if_exists=True)
    with pytest.raises(ConfigError, match="exists already"):
        catalog.create_database("shop")
    assert catalog.databases() == ["shop"]


def test_a_table_is_created_listed_renamed_and_dropped(catalog: penstock.Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "4"}, comment="all orders")
    assert catalog.tables("shop") == ["orders"]
    table = catalog.table("shop.orders")
    assert (table.primary_keys, table.options, table.comment) == (["id"], {"bucket": "4"}, "all orders")
    assert table.schema == SCHEMA
    catalog.rename_table("shop.orders", "shop.sales")
    assert catalog.tables("shop") == ["sales"]
    catalog.drop_table("shop.sales")
    assert catalog.tables("shop") == []


def test_types_can_be_written_as_in_paimon(catalog: penstock.Catalog) -> None:
    table = catalog.create_table("shop.t", [("id", "INT NOT NULL"), ("price", "DECIMAL(10, 2)")], primary_keys=["id"])
    assert table.schema.field("price").type == pa.decimal128(10, 2)


def test_a_database_with_tables_is_dropped_only_with_cascade(catalog: penstock.Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA, options={"bucket": "-1"})
    with pytest.raises(ConfigError, match="not empty"):
        catalog.drop_database("shop")
    catalog.drop_database("shop", cascade=True)
    assert catalog.databases() == []


def test_columns_are_added_and_old_rows_read_null(catalog: penstock.Catalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "v": ["a"]}, schema=SCHEMA))
        writer.commit()
    catalog.alter_table("shop.orders", [penstock.AddColumn("c", "INT", after="id"), penstock.SetOption("bucket", "8")])
    table = catalog.table("shop.orders")
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "c": None, "v": "a"}]
    assert table.options["bucket"] == "8"


def test_a_table_outside_the_warehouse_is_opened_by_its_path(tmp_path: Path) -> None:
    made = penstock.create_table(f"{tmp_path}/apart/orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    assert penstock.open_table(made.path).primary_keys == ["id"]


def test_system_tables_are_opened_by_name(catalog: penstock.Catalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    with table.writer(commit_user="etl") as writer:
        writer.write(pa.table({"id": [1], "v": ["a"]}, schema=SCHEMA))
        writer.commit(identifier=3)
    shown = catalog.table("shop.orders$snapshots").scan(columns=["snapshot_id", "commit_user"]).to_arrow()
    assert shown.to_pylist() == [{"snapshot_id": 1, "commit_user": "etl"}]
    assert table.system("files")["record_count"].to_pylist() == [1]


def test_an_unknown_system_table_is_refused_with_the_nearest_name(catalog: penstock.Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    with pytest.raises(ConfigError, match="snapshot") as caught:
        catalog.table("shop.orders$snapshot")
    assert "snapshots" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["orders", "shop.", ".orders", "shop.a$b$c"])
def test_invalid_table_names_are_refused(catalog: penstock.Catalog, name: str) -> None:
    with pytest.raises(ConfigError):
        catalog.table(name)


@pytest.mark.parametrize("name", ["snapshots", "schemas", "options", "files", "manifests", "partitions", "buckets"])
def test_system_tables_of_an_empty_table_have_their_columns(catalog: penstock.Catalog, name: str) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    assert table.system(name).num_columns > 0


def test_columns_may_have_arrow_types_and_options_may_be_numbers(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t", [("id", "BIGINT NOT NULL"), ("at", pa.timestamp("ms"))], options={"bucket": -1, "write-only": True}
    )
    assert table.schema.field("at").type == pa.timestamp("ms")
    assert table.options == {"bucket": "-1", "write-only": "true"}
    catalog.alter_table(
        "d.t", [penstock.AddColumn("n", pa.int32()), penstock.SetOption("snapshot.num-retained.max", 50)]
    )
    assert catalog.table("d.t").options["snapshot.num-retained.max"] == "50"
    assert catalog.table("d.t").schema.field("n").type == pa.int32()


@pytest.mark.parametrize(
    ("verb", "reason"),
    [
        (lambda c: c.create_table("d.t", 5), "columns of a table cannot be a int"),
        (lambda c: c.create_table("d.t", "id"), "columns of a table cannot be a str"),
        (lambda c: c.create_table("d.t", [("id",)]), "is not a column"),
        (lambda c: c.create_table("d.t", [("id", 5)]), "5 is not a type"),
        (lambda c: c.alter_table("d.there", penstock.AddColumn("c", "INT")), "a list of changes"),
        (lambda c: c.alter_table("d.there", ["c INT"]), "a list of changes"),
        (lambda c: penstock.Catalog(None), "a path or a URL"),
    ],
)
def test_paths_without_a_table_and_unknown_changes_are_refused(
    tmp_path: Path, verb: Callable[[penstock.Catalog], object], reason: str
) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("d")
    catalog.create_table("d.there", [("id", "BIGINT")])
    with pytest.raises(ConfigError, match=reason):
        verb(catalog)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"file.compression": "zst"}, "'zst' is not a codec of parquet"),
        ({"target-file-size": "12 qb"}, "'12 qb' is not a size"),
        ({"snapshot.time-retained": "soon"}, "'soon' is not a duration"),
    ],
)
def test_options_that_would_fail_a_later_write_are_refused_by_create_and_alter(
    catalog: penstock.Catalog, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        catalog.create_table("shop.t", SCHEMA, options=options)

    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(ConfigError, match=reason):
        catalog.alter_table("shop.t", [penstock.SetOption(*option) for option in options.items()])


@pytest.mark.parametrize("codec", ["lz4", "gzip", "brotli"])
def test_a_codec_that_avro_lacks_is_refused_for_postponed_buckets(catalog: penstock.Catalog, codec: str) -> None:
    columns, postponed = [("id", "INT NOT NULL")], {"bucket": "-2"}
    refused = pytest.raises(ConfigError, match=r"not a codec of avro.*\(bucket = -2\) are stored in Avro files")
    with refused as error:
        catalog.create_table("shop.t", columns, ["id"], options={**postponed, "file.compression": codec})
    assert "zstd" in str(error.value.hint)
    table = catalog.create_table(
        "shop.t", columns, ["id"], options={**postponed, "file.compression.per.level": f"0:{codec},5:{codec}"}
    )
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32())}))
        writer.commit()
    table.compact()
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]
    with refused:
        catalog.alter_table("shop.t", [penstock.SetOption("file.compression", codec)])


def test_the_error_for_a_missing_table_names_the_nearest(catalog: penstock.Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA)

    with pytest.raises(TableMissing) as missing:
        catalog.table("shop.order")
    assert missing.value.hint == "did you mean shop.orders?"
    for name, hint in (
        ("shop.zzz", "database shop has no similar table;  penstock tables  lists what is there"),
        ("shopp.orders", "did you mean shop?"),
        ("zzz.orders", "there is no database zzz"),
    ):
        with pytest.raises(TableMissing) as missing:
            catalog.table(name)
        assert missing.value.hint == hint
    for change in (catalog.drop_table, lambda name: catalog.rename_table(name, "shop.o")):
        with pytest.raises(TableMissing) as missing:
            change("shop.order")
        assert missing.value.hint == "did you mean shop.orders?"


def test_a_database_of_a_folder_has_no_properties(catalog: penstock.Catalog) -> None:
    assert catalog.database_properties("shop") == {}
    with pytest.raises(ConfigError, match="has no properties"):
        catalog.create_database("other", properties={"owner": "me"})
    with pytest.raises(ConfigError, match="there is no database 'other'"):
        catalog.database_properties("other")


def test_a_store_that_overwrites_is_refused_before_a_table_is_created(tmp_path: Path) -> None:
    class Overwriting(LocalStorage):
        def create(self, path: str, data: bytes) -> bool:
            self.write(path, data)
            return True

    backend = FileCatalog(Overwriting(), str(tmp_path))
    catalog = penstock.Catalog(str(tmp_path), backend=backend)
    with pytest.raises(StoreUnsafe):
        catalog.create_database("shop")
    schema = create_schema([("id", "INT")], options={"bucket": "-1"}, now=1)
    with pytest.raises(StoreUnsafe):
        backend.create_table("shop.orders", schema)
    assert catalog.databases() == []


def test_a_new_column_is_shown_by_system_tables_before_the_next_commit(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", [("id", "INT NOT NULL")], primary_keys=["id"], options={"bucket": "1"})
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32())}))
        writer.commit()
    catalog.alter_table("db.t", [penstock.AddColumn("c", "INT")])
    for name in ("ro", "audit_log"):
        assert "c" in catalog.table("db.t").system(name).schema.names


def test_an_empty_warehouse_is_refused() -> None:
    with pytest.raises(ConfigError, match="the warehouse is empty"):
        penstock.Catalog("")
