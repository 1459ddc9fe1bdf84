"""One Hive metastore, used by the HiveCatalog of Java Paimon and by Penstock."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.storage.environment import Environment
from penstock.table.catalog.hive_commits import HiveLocks
from penstock.table.metastore.hive_client import HiveMetastore
from tests.integration.hive.conftest import metastore
from tests.integration.hive.overwriting_folders import overwriting_catalog
from tests.interop.kept_views import check_views_of_java, check_views_of_ours
from tests.interop.oracle.client import Oracle
from tests.interop.shared_catalog import (
    COLUMNS,
    SharedCatalog,
    check_commits_of_both,
    check_java_waits,
    check_we_use_a_table_of_java,
    create_events,
    ids,
    put,
)
from tests.invariants import check_invariants
from tests.locked_catalog import OverwritingStorage

__all__ = ["metastore"]
pytestmark = [pytest.mark.hive, pytest.mark.slow]
TYPES = [
    ("id", "INT NOT NULL"),
    ("flag", "BOOLEAN"),
    ("tiny", "TINYINT"),
    ("amount", "DECIMAL(10, 2)"),
    ("short_text", "CHAR(3)"),
    ("text", "VARCHAR(20)"),
    ("content", "BYTES"),
    ("day", "DATE"),
    ("clock", "TIME(3)"),
    ("at", "TIMESTAMP(6)"),
    ("seen", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
]


@dataclass(frozen=True)
class Lake(SharedCatalog):
    """A catalog in a metastore, with locks."""

    metastore: HiveMetastore

    @classmethod
    def of(cls, oracle: Oracle, metastore: str, folder: Path) -> Lake:
        options = {"metastore": "hive", "uri": metastore, "lock.enabled": "true"}
        return cls(oracle, f"{folder}/warehouse", options, HiveMetastore.of(metastore))

    def partitions(self, name: str) -> dict[str, Any]:
        database, table = name.split(".")
        with self.metastore.session() as client:
            found = client.get_partitions(database, table, -1)
        return {partition.sd.location.rpartition("/")[2]: partition for partition in found}


@pytest.fixture
def lake(oracle: Oracle, metastore: str, tmp_path: Path) -> Iterator[Lake]:
    (tmp_path / "warehouse").mkdir()
    found = Lake.of(oracle, metastore, tmp_path)
    yield found
    for database in found.ours.databases():
        if database != "default":
            found.ours.drop_database(database, cascade=True)


def test_java_uses_our_tables(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop", properties={"team": "a"})
    put(ours.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"}), 1, 2)
    assert lake.java("tables")["tables"] == ["shop.orders"]
    assert lake.java("database", database="shop")["options"]["team"] == "a"
    assert lake.java_rows("shop.orders") == [[1, "1"], [2, "2"]]
    lake.java("write", table="shop.orders", rows=[["+I", 3, "java"]])
    lake.java("alter", table="shop.orders", changes=[{"kind": "add", "name": "more", "type": "INT"}])
    table = ours.table("shop.orders")
    assert (ids(table), table.schema.names) == ([1, 2, 3], ["id", "v", "more"])
    lake.java("rename_table", table="shop.orders", to="shop.sales")
    assert ours.tables("shop") == ["sales"]
    assert ids(ours.table("shop.sales")) == [1, 2, 3]
    check_invariants(ours.table("shop.sales"), oracle=lake.oracle)
    lake.java("drop_table", table="shop.sales")
    assert (ours.tables("shop"), Path(lake.warehouse, "shop.db/sales").exists()) == ([], False)


def test_we_use_the_tables_of_java(lake: Lake) -> None:
    check_we_use_a_table_of_java(lake)


CREATED: dict[str, tuple[Sequence[tuple[str, str]], list[str], list[str], dict[str, str]]] = {
    "all types": (TYPES, [], [], {}),
    "a key": (COLUMNS, ["id"], [], {"bucket": "2", "file.format": "parquet"}),
    "partitions in the files": ([*COLUMNS, ("dt", "STRING NOT NULL")], ["dt", "id"], ["dt"], {"bucket": "1"}),
    "partitions in the metastore": (
        [*COLUMNS, ("dt", "STRING"), ("hh", "INT")],
        [],
        ["dt", "hh"],
        {"metastore.partitioned-table": "true"},
    ),
    "tags": (COLUMNS, [], [], {"metastore.tag-to-partition": "tag"}),
}


@pytest.mark.parametrize("case", CREATED)
def test_descriptions_equal_those_of_java(lake: Lake, case: str) -> None:
    columns, keys, partition_keys, options = CREATED[case]
    lake.ours.create_database("shop")
    lake.ours.create_table("shop.ours", columns, keys, partition_keys, options, comment="sales")
    arguments = {"columns": columns, "pk": keys, "partition": partition_keys, "options": options, "comment": "sales"}
    lake.java("create", table="shop.java", **arguments)
    ours, java = (plain(lake.metastore.table("shop", name)) for name in ("ours", "java"))
    assert ours == java


SIMPLE = (
    *(
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "TIME(0)",
        "TIME(3)",
        "STRING",
        "BYTES",
    ),
    *("DECIMAL(1, 0)", "DECIMAL(38, 18)", "CHAR(1)", "CHAR(255)", "CHAR(256)", "VARCHAR(1)", "VARCHAR(65535)"),
    *("VARCHAR(65536)", "BINARY(4)", "VARBINARY(9)", "TIMESTAMP(0)", "TIMESTAMP(6)", "TIMESTAMP(9)"),
    *("TIMESTAMP(0) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
)
PARTITIONS = (
    "INT NOT NULL",
    "BIGINT NOT NULL",
    "STRING NOT NULL",
    "DATE NOT NULL",
    "BOOLEAN NOT NULL",
    "CHAR(3) NOT NULL",
)
OPTIONS = {
    "changelog-producer": ("none", "input", "lookup", "full-compaction"),
    "file.format": ("parquet", "orc"),
    "snapshot.num-retained.max": ("20",),
    "deletion-vectors.enabled": ("true",),
    "write-only": ("true",),
    "target-file-size": ("64 mb",),
}


def random_type(chance: random.Random, depth: int = 0) -> str:
    kind = chance.choice(("simple", "simple", "ARRAY", "MAP", "MULTISET", "ROW")) if depth < 2 else "simple"
    if kind == "simple":
        return chance.choice(SIMPLE)
    inner = random_type(chance, depth + 1)
    if kind == "MAP":
        return f"MAP<{chance.choice(('INT', 'STRING', 'DATE'))}, {inner}>"
    if kind == "ROW":
        return f"ROW<a {inner}, `b c` {chance.choice(SIMPLE)}>"
    return f"{kind}<{inner}>"


def random_table(chance: random.Random) -> dict[str, Any]:
    """The arguments of a table that both create: columns, keys, partitions and options."""
    columns = [(f"c{number}", random_type(chance)) for number in range(chance.randint(1, 8))]
    partition = [f"p{number}" for number in range(chance.choice((0, 0, 1, 2)))]
    # Partition columns are not the last ones in each table.
    for name in partition:
        columns.insert(chance.randint(0, len(columns)), (name, chance.choice(PARTITIONS)))
    keyed = chance.random() < 0.6
    options = {"bucket": chance.choice(("1", "4", "-1"))} if keyed else {}
    if keyed:
        columns.append(("id", "BIGINT NOT NULL"))
        options |= {name: chance.choice(values) for name, values in OPTIONS.items() if chance.random() < 0.3}
        if options.get("deletion-vectors.enabled") and options.get("changelog-producer") not in {
            None,
            "none",
            "lookup",
        }:
            del options["deletion-vectors.enabled"]
    if partition and chance.random() < 0.5:
        options["metastore.partitioned-table"] = "true"
    keys = [*partition, "id"] if keyed else []
    return {"columns": columns, "pk": keys, "partition": partition, "options": options, "comment": 'it\'s a "table" ü'}


def test_descriptions_of_generated_tables_equal_those_of_java(lake: Lake, night: bool) -> None:
    lake.ours.create_database("shop")
    kinds: Counter[str] = Counter()
    for seed in range(60 if night else 12):
        made = random_table(random.Random(seed))
        name = f"t{seed}"
        table = lake.ours.create_table(
            f"shop.{name}_ours",
            made["columns"],
            made["pk"],
            made["partition"],
            made["options"],
            comment=made["comment"],
        )
        # Java reads texts of types without members only, and the others as schema files have them.
        fields = json.loads(Path(f"{table.path}/schema/schema-0").read_text(encoding="utf-8"))["fields"]
        columns = [(field["name"], field["type"]) for field in fields]
        lake.java("create", table=f"shop.{name}_java", **{**made, "columns": columns})
        ours, java = (plain(lake.metastore.table("shop", f"{name}_{side}")) for side in ("ours", "java"))
        assert ours == java, (seed, made)
        kinds.update(("keyed" if made["pk"] else "append", "parted" if made["partition"] else "whole"))
    assert min(kinds[kind] for kind in ("keyed", "append", "parted", "whole")) > 2, kinds


def test_both_name_a_table_in_the_same_folder(lake: Lake, tmp_path: Path) -> None:
    path = f"{tmp_path}/elsewhere"
    lake.ours.create_database("shop")
    put(lake.ours.create_table("shop.ours", COLUMNS, ["id"], options={"bucket": "1", "path": path}), 1)
    lake.java("create", table="shop.java", columns=[], pk=[], options={"path": path})
    ours, java = (plain(lake.metastore.table("shop", name)) for name in ("ours", "java"))
    # How many bytes the folder has, when the entry is made, is noted by the metastore.
    for partition in (ours, java):
        partition["parameters"] = {
            k: v for k, v in partition["parameters"].items() if k not in {"totalSize", "numFiles"}
        }
    assert ours == java
    lake.java("drop_table", table="shop.java")
    assert lake.java_rows("shop.ours") == [[1, "1"]]
    lake.ours.drop_table("shop.ours")
    lake.java("create", table="shop.java", columns=[], pk=[], options={"path": path})
    assert ids(lake.ours.table("shop.java")) == [1]


def plain(described: Any) -> dict[str, Any]:
    """Return the fields of a description, without times and without the name in its location."""
    found = {key: value for key, value in vars(described).items() if key not in {"createTime", "lastAccessTime"}}
    found["sd"] = {**vars(described.sd), "location": described.sd.location.rpartition("/")[0]}
    found["parameters"] = {k: v for k, v in described.parameters.items() if k != "transient_lastDdlTime"}
    return {key: value for key, value in found.items() if key != "tableName"}


def test_partitions_of_both_are_in_the_metastore(lake: Lake) -> None:
    columns, _, partition_keys, options = CREATED["partitions in the metastore"]
    lake.java("create", table="shop.java", columns=columns, partition=partition_keys, options=options)
    lake.java("write", table="shop.java", rows=[["+I", 1, "a", "mon", 1]])
    table = lake.ours.table("shop.java")
    with table.writer() as writer:
        writer.write(pa.table({"id": [2], "v": ["b"], "dt": ["tue"], "hh": [2]}, schema=table.schema))
        writer.commit()
    with lake.metastore.session() as client:
        assert sorted(client.get_partition_names("shop", "java", -1)) == ["dt=mon/hh=1", "dt=tue/hh=2"]
        java, ours = sorted(client.get_partitions("shop", "java", -1), key=lambda partition: partition.values)
    assert (java.values, ours.values) == (["mon", "1"], ["tue", "2"])
    assert vars(ours.sd) == {**vars(java.sd), "location": java.sd.location.replace("dt=mon/hh=1", "dt=tue/hh=2")}


def test_tags_of_both_are_partitions(lake: Lake) -> None:
    lake.java("create", table="shop.java", columns=COLUMNS, options={"metastore.tag-to-partition": "tag"})
    lake.java("write", table="shop.java", rows=[["+I", 1, "a"]])
    lake.java("tag", table="shop.java", name="first")
    table = lake.ours.table("shop.java")
    table.create_tag("second: 1")
    found = lake.partitions("shop.java")
    assert sorted(partition.values[0] for partition in found.values()) == ["first", "second: 1"]
    assert sorted(found) == ["tag=first", "tag=second%3A 1"]
    assert vars(found["tag=first"].sd).keys() == vars(found["tag=second%3A 1"].sd).keys()
    lake.java("delete_tag", table="shop.java", name="second: 1")
    table.refresh().rename_tag("first", "last")
    assert sorted(lake.partitions("shop.java")) == ["tag=last"]


def test_a_metastore_that_lost_its_tables_is_repaired_as_java_does(lake: Lake) -> None:
    columns, _, partition_keys, options = CREATED["partitions in the metastore"]
    lake.java("create", table="shop.java", columns=columns, partition=partition_keys, options=options)
    lake.java("write", table="shop.java", rows=[["+I", 1, "a", "mon", 1], ["+I", 2, "b", "tue", 2]])
    before = plain(lake.metastore.table("shop", "java"))
    with lake.metastore.session() as client:
        client.drop_database("shop", deleteData=False, cascade=True)
    assert [(partition.name, partition.outcome) for partition in lake.ours.repair()] == [("shop.java", "added")]
    assert plain(lake.metastore.table("shop", "java")) == before
    ours = sorted(lake.partitions("shop.java"))
    with lake.metastore.session() as client:
        client.drop_table("shop", "java", deleteData=False)
    lake.java("repair_table", table="shop.java")
    assert sorted(lake.partitions("shop.java")) == ours == ["hh=1", "hh=2"]
    assert [partition.outcome for partition in lake.ours.repair("shop.java")] == ["unchanged"]
    assert lake.java_rows("shop.java") == [[1, "a", "mon", 1], [2, "b", "tue", 2]]


def test_java_waits_for_our_lock(lake: Lake) -> None:
    put(create_events(lake), 1)
    locks = HiveLocks(lake.metastore, 60_000, 100)
    check_java_waits(lake, locks.held("shop.events", Environment()))


@pytest.mark.timeout(1800)
def test_commits_of_both_under_one_lock_are_kept(lake: Lake) -> None:
    """Commit from both sides, ours to a store that overwrites files: without the lock, commits would be lost."""
    commits = int(os.environ.get("PENSTOCK_MIXED_COMMITS", "20"))
    create_events(lake)
    backend = overwriting_catalog(lake.warehouse, lake.metastore)
    table = penstock.Catalog(lake.warehouse, backend=backend).table("shop.events")
    assert isinstance(table.store.storage, OverwritingStorage)
    check_commits_of_both(lake, table, commits)


def test_a_view_of_java_is_listed_read_and_dropped(lake: Lake) -> None:
    lake.ours.create_database("shop")
    put(lake.ours.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"}), 1, 2)
    check_views_of_java(lake)


def test_java_finds_a_view_as_it_was_created_replaced_and_renamed(lake: Lake) -> None:
    lake.ours.create_database("shop")
    lake.ours.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    check_views_of_ours(lake)
