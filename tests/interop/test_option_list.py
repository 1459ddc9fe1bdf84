"""The catalog of table options against the options that Java Paimon declares."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.storage.catalog_options import ACTING, WITHOUT_EFFECT
from penstock.table.options.catalog import find
from penstock.table.options.declaration import TableOption
from tests.interop.oracle.client import Oracle

CLASSES = [
    "org.apache.paimon.CoreOptions",
    "org.apache.paimon.iceberg.IcebergOptions",
    "org.apache.paimon.lookup.rocksdb.RocksDBOptions",
    "org.apache.paimon.format.OrcOptions",
]
KINDS = {
    "Boolean": {"boolean"},
    "Double": {"number"},
    "Duration": {"duration"},
    "Float": {"number"},
    "Integer": {"integer"},
    "Long": {"integer"},
    "Map": {"per level"},
    "MemorySize": {"size"},
    "String": {"text", "choice", "choices", "statistics", "names", "column"},
}
# Java declares these with a type that their values do not have.
MISTYPED = {"orc.column.encoding.direct", "parquet.enable.dictionary"}
# Defaults that stand for "no limit" or for the class that reads the option.
UNLIMITED = {"lookup.cache-max-disk-size", "snapshot.num-retained.max", "write-buffer-spill.max-disk-size"}
UNLIMITED |= {"metadata.iceberg.hive-client-class"}


@pytest.fixture(scope="module")
def declared(oracle: Oracle) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = oracle.ask("options", classes=CLASSES)["options"]
    assert len(found) > 250
    return found


def ours(item: dict[str, Any]) -> TableOption:
    found = find(item["key"])
    assert found is not None, item
    return found


def test_every_option_of_a_catalog_is_known(oracle: Oracle) -> None:
    names = ("options.CatalogOptions", "jdbc.JdbcCatalogOptions", "hive.HiveCatalogOptions")
    declared = oracle.ask("options", classes=[f"org.apache.paimon.{name}" for name in names])["options"]
    assert len(declared) > 20
    assert {item["key"] for item in declared} <= {*ACTING, *WITHOUT_EFFECT}


def test_every_option_of_java_is_declared_under_the_same_key(declared: list[dict[str, Any]]) -> None:
    wrong = [item["key"] for item in declared if ours(item).pattern is None and ours(item).key != item["key"]]
    assert wrong == []


def test_older_keys_are_the_same(declared: list[dict[str, Any]]) -> None:
    for item in declared:
        assert all(older in ours(item).old_keys for older in item["older"]), item


def test_types_are_the_same(declared: list[dict[str, Any]]) -> None:
    for item in declared:
        option = ours(item)
        if item["choices"] and option.kind.choices:
            known = {choice.lower().replace("_", "-") for choice in option.kind.choices}
            missing = {choice.lower().replace("_", "-") for choice in item["choices"]} - known
            assert missing <= {"from-creation-timestamp", "custom"}, item
        elif not item["choices"] and item["key"] not in MISTYPED:
            assert option.kind.name in KINDS.get(item["type"], {"text"}), item


def test_defaults_are_the_same(declared: list[dict[str, Any]]) -> None:
    for item in declared:
        option, given = ours(item), item["default"] or None
        if item["key"] in MISTYPED | UNLIMITED or (option.kind.name == "per level" and given == "{}"):
            continue
        if given is None or not option.default:
            assert given == (option.default or None), item
            continue
        value = option.kind.parse(_seconds(given) if option.kind.name == "duration" else given)
        assert value == option.kind.parse(option.default), item


def _seconds(text: str) -> str:
    """PT1H, PT0.01S as milliseconds."""
    parts = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", text)
    assert parts is not None, text
    hours, minutes, seconds = (float(part or 0) for part in parts.groups())
    return f"{round((hours * 3600 + minutes * 60 + seconds) * 1000)} ms"
