"""The contract of a Hive catalog on metastores of Hive 3.1 and 4.0, whose requests and defaults differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.table.handle import Table
from tests.integration.hive.conftest import metastore_of
from tests.integration.hive.test_hive_catalog import (
    COLUMNS,
    described,
    ids,
    options,
    put,
    test_a_change_that_the_metastore_refuses_is_undone,
    test_a_commit_waits_for_the_lock_and_fails_without_it,
    test_a_table_may_be_in_any_folder,
    test_databases_have_properties_and_a_location,
    test_files_of_an_external_table_are_kept,
    test_foreign_tables_are_neither_listed_nor_dropped,
    test_repair_makes_the_metastore_follow_the_tables,
    test_schema_changes_reach_the_metastore,
    test_tables_are_created_listed_renamed_and_dropped,
)
from tests.integration.hive.test_hive_partitions import (
    orders,
    test_a_partition_without_rows_is_dropped_unless_a_branch_may_have_some,
    test_a_table_that_is_renamed_or_created_again_has_its_partitions,
    test_columns_follow_and_the_option_stays,
    test_partitions_follow_the_commits,
    test_tags_are_partitions,
)
from tests.integration.hive.test_iceberg_entry import test_columns_that_a_metastore_refuses_follow_too
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.interop.test_hive_catalog import Lake
from tests.interop.test_hive_catalog import (
    test_descriptions_equal_those_of_java as descriptions_equal_those_of_java,
)
from tests.interop.test_hive_catalog import test_java_uses_our_tables as java_uses_our_tables
from tests.interop.test_hive_catalog import test_java_waits_for_our_lock as java_waits_for_our_lock
from tests.interop.test_hive_catalog import test_tags_of_both_are_partitions as tags_of_both_are_partitions
from tests.interop.test_hive_catalog import test_we_use_the_tables_of_java as we_use_the_tables_of_java

# The tests that are imported run here on the newer metastores.
__all__ = [
    "orders",
    "test_a_change_that_the_metastore_refuses_is_undone",
    "test_a_commit_waits_for_the_lock_and_fails_without_it",
    "test_a_partition_without_rows_is_dropped_unless_a_branch_may_have_some",
    "test_a_table_may_be_in_any_folder",
    "test_a_table_that_is_renamed_or_created_again_has_its_partitions",
    "test_columns_follow_and_the_option_stays",
    "test_columns_that_a_metastore_refuses_follow_too",
    "test_databases_have_properties_and_a_location",
    "test_files_of_an_external_table_are_kept",
    "test_foreign_tables_are_neither_listed_nor_dropped",
    "test_partitions_follow_the_commits",
    "test_repair_makes_the_metastore_follow_the_tables",
    "test_schema_changes_reach_the_metastore",
    "test_tables_are_created_listed_renamed_and_dropped",
    "test_tags_are_partitions",
]
# Also `java`: the servers are fetched by Maven.
pytestmark = [pytest.mark.hive, pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module", params=["3.1", "4.0"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, str]]:
    """A metastore: its series, its own folder and its address."""
    folder = tmp_path_factory.mktemp("hive")
    with metastore_of(request.param, folder) as address:
        yield request.param, folder, address


@pytest.fixture
def metastore(server: tuple[str, Path, str]) -> str:
    return server[2]


@pytest.fixture
def lake(metastore: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[penstock.Catalog]:
    catalog = penstock.Catalog(f"{tmp_path}/warehouse", options(metastore))
    others = catalog.databases()  # `default`, and those of other tests with this metastore
    if request.function.__module__.endswith("test_hive_partitions"):
        catalog.create_database("parts")
    yield catalog
    for database in set(catalog.databases()).difference(others):
        catalog.drop_database(database, cascade=True)


def test_tables_are_in_the_folder_of_their_database_also_where_hive_4_moves_it(
    server: tuple[str, Path, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hive 4 makes external tables of managed ones, and moves databases out of its own warehouse."""
    series, folder, address = server
    for warehouse in (folder / "warehouse", tmp_path / "elsewhere"):
        lake = penstock.Catalog(str(warehouse), options(address))
        caplog.clear()
        lake.create_database("shop")
        moved = series == "4.0" and warehouse.name == "warehouse"
        place = folder / "external" if moved else warehouse
        assert ("event=database_elsewhere database=shop" in caplog.text) == moved
        assert lake.database_properties("shop")["location"].removeprefix("file:") == f"{place}/shop.db"
        table = lake.create_table("shop.orders", COLUMNS, ["id"], options={"bucket": "1"})
        assert table.path == f"{place}/shop.db/orders"
        put(table, 1)
        found = described(address, "shop.orders")
        assert found.sd.location == f"file:{table.path}"
        assert (found.parameters.get("TRANSLATED_TO_EXTERNAL") == "TRUE") == (series == "4.0")
        lake.alter_table("shop.orders", [penstock.AddColumn("n", "INT")])
        lake.rename_table("shop.orders", "shop.sales")
        assert lake.table("shop.sales").path == f"{place}/shop.db/sales"
        assert ids(lake.table("shop.sales")) == [1]
        assert [table.outcome for table in lake.repair("shop")] == ["unchanged"]
        # The table is ours, whatever the metastore makes of its type: its files go with it.
        lake.drop_table("shop.sales")
        assert not Path(f"{place}/shop.db/sales").exists()
        lake.drop_database("shop")


def test_properties_of_a_database_are_changed(server: tuple[str, Path, str], tmp_path: Path) -> None:
    lake = penstock.Catalog(str(tmp_path / "warehouse"), options(server[2]))
    lake.create_database("shop", properties={"team": "a", "old": "x"})
    lake.alter_database("shop", {"team": "b", "old": None, "comment": "sales"})
    found = lake.database_properties("shop")
    assert found.pop("location").endswith("shop.db")
    assert found == {"team": "b", "comment": "sales"}
    lake.drop_database("shop")


@pytest.fixture
def shared(oracle: Oracle, metastore: str, tmp_path: Path) -> Iterator[Lake]:
    (tmp_path / "warehouse").mkdir()
    found = Lake.of(oracle, metastore, tmp_path)
    others = found.ours.databases()  # `default`, and those of other tests with this metastore
    yield found
    for database in set(found.ours.databases()).difference(others):
        found.ours.drop_database(database, cascade=True)


def test_the_hive_catalog_of_java_and_ours_share_a_metastore(server: tuple[str, Path, str], shared: Lake) -> None:
    if server[0] == "4.0":
        put_in(shared.ours)
        with pytest.raises(JavaRefused) as refused:
            shared.java("read", table="shop.orders")
        assert "Invalid method name: 'get_table'" in refused.value.trace
        read = shared.oracle.read(Path(shared.ours.table("shop.orders").path))
        assert [tuple(row) for row in read.rows] == [(1, "1")]
        return
    for story in (
        java_uses_our_tables,
        we_use_the_tables_of_java,
        tags_of_both_are_partitions,
        java_waits_for_our_lock,
        lambda lake: descriptions_equal_those_of_java(lake, "a key"),
        lambda lake: descriptions_equal_those_of_java(lake, "partitions in the metastore"),
    ):
        story(shared)
        shared.ours.drop_database("shop", cascade=True)


def put_in(lake: penstock.Catalog) -> Table:
    lake.create_database("shop")
    table = lake.create_table("shop.orders", COLUMNS, ["id"], options={"bucket": "1"})
    put(table, 1)
    return table
