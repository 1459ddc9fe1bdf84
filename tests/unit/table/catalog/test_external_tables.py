from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.catalog.external_tables import check_same, checked_path
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema

COLUMNS = (("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"))
PATH = "/elsewhere/t"


def schema(
    columns: tuple[tuple[str, str], ...] = COLUMNS, keys: tuple[str, ...] = ("id", "dt"), dt: str = "dt", **options: str
) -> TableSchema:
    return create_schema(columns, keys, (dt,) if dt else (), options, None, now=0)


def test_a_table_with_the_same_columns_keys_and_options_is_accepted() -> None:
    check_same(schema(bucket="1", **{"write-only": "true"}), schema(bucket="1", path=PATH), "shop.t", PATH)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (schema((*COLUMNS, ("v", "INT")), bucket="1"), "other columns"),
        (schema((COLUMNS[0], ("dt", "VARCHAR(3) NOT NULL")), bucket="1"), "other columns"),
        (schema(keys=(), bucket="-1"), "other primary key"),
        (schema(dt="", bucket="1"), "other partition columns"),
        (schema(bucket="2"), "another value of 'bucket'"),
    ],
)
def test_another_table_is_refused(wanted: TableSchema, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        check_same(schema(bucket="1"), wanted, "shop.t", PATH)
    assert PATH in str(caught.value)


def test_a_path_has_one_meaning_in_all_processes() -> None:
    assert [checked_path(path) for path in ("/a/t/", "s3://b/t", "file:/a")] == ["/a/t", "s3://b/t", "file:/a"]
    with pytest.raises(ConfigError, match="relative path"):
        checked_path("a/t")


def test_a_warehouse_chooses_the_folders_of_its_tables(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    with pytest.raises(ConfigError, match="chooses the folders of its tables") as caught:
        catalog.create_table("shop.t", COLUMNS, options={"path": str(tmp_path / "elsewhere")})
    assert "metastore=hive" in str(caught.value)
    assert not (tmp_path / "elsewhere").exists()
