"""Options that have no effect in a table as it is: each is reported there, and not where they act."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.option_needs import report_table, table_options_without_effect
from penstock.table.schema.changes import SetOption
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema

COLUMNS = [("dt", "STRING"), ("id", "INT"), ("v", "INT"), ("at", "INT")]
KEYED = {"bucket": "1"}
AGGREGATED = {**KEYED, "merge-engine": "aggregation"}
PARTIAL = {**KEYED, "merge-engine": "partial-update"}
INPUT = {**KEYED, "changelog-producer": "input"}
TAGGED = {**KEYED, "tag.automatic-creation": "process-time"}
LOOKED_UP = {**KEYED, "changelog-producer": "lookup"}
EXPIRING = {"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyy-MM-dd"}
ICEBERG = {**KEYED, "metadata.iceberg.storage": "table-location", "deletion-vectors.enabled": "true"}

# An option, its value, the options of a table with a key where it has no effect, those where it acts, and the note.
KEYED_TABLES = [
    ("fields.v.aggregate-function", "sum", KEYED, AGGREGATED, "merge-engine = aggregation"),
    ("fields.v.aggregate-function", "sum", KEYED, PARTIAL | {"fields.at.sequence-group": "v"}, "partial-update"),
    ("fields.default-aggregate-function", "last_value", KEYED, AGGREGATED, "merge-engine = aggregation"),
    ("fields.v.ignore-retract", "true", KEYED, AGGREGATED, "merge-engine = aggregation"),
    ("fields.v.list-agg-delimiter", ";", KEYED, AGGREGATED, "merge-engine = aggregation"),
    ("fields.at.sequence-group", "v", KEYED, PARTIAL, "merge-engine = partial-update"),
    ("partial-update.remove-record-on-delete", "true", AGGREGATED, PARTIAL, "merge-engine = partial-update"),
    ("aggregation.remove-record-on-delete", "true", PARTIAL, AGGREGATED, "merge-engine = aggregation"),
    ("sequence.field.sort-order", "descending", KEYED, KEYED | {"sequence.field": "at"}, "sequence.field"),
    ("record-level.time-field", "at", KEYED, KEYED | {"record-level.expire-time": "1 d"}, "record-level.expire-time"),
    ("lookup-wait", "false", KEYED, LOOKED_UP, "changelog-producer = lookup"),
    ("lookup-compact", "GENTLE", KEYED, KEYED | {"force-lookup": "true"}, "force-lookup"),
    ("lookup.cache-max-disk-size", "1 gb", KEYED, KEYED | {"merge-engine": "first-row"}, "merge-engine = first-row"),
    ("changelog-producer.row-deduplicate", "true", KEYED, LOOKED_UP, "lookup or full-compaction"),
    (
        "changelog-producer.row-deduplicate",
        "true",
        INPUT,
        LOOKED_UP,
        "lookup or full",
    ),
    ("changelog-file.format", "avro", KEYED, INPUT, "changelog-producer"),
    ("deletion-vectors.bitmap64", "true", KEYED, KEYED | {"deletion-vectors.enabled": "true"}, "deletion-vectors"),
    ("dynamic-bucket.target-row-num", "1000", KEYED, {}, "bucket = -1"),
    ("postpone.default-bucket-num", "4", KEYED, {"bucket": "-2"}, "bucket = -2"),
    (
        "tag.creation-period",
        "hourly",
        KEYED,
        TAGGED,
        "tag.automatic-creation",
    ),
    ("partition.expiration-check-interval", "2 h", KEYED, KEYED | EXPIRING, "partition.expiration-time"),
    (
        "metadata.iceberg.format-version",
        "3",
        KEYED,
        ICEBERG,
        "iceberg.storage",
    ),
]
# An option and a value that act only with a key.
WITH_A_KEY = [
    ("merge-engine", "first-row"),
    ("sequence.field", "at"),
    ("ignore-delete", "true"),
    ("rowkind.field", "dt"),
    ("record-level.expire-time", "1 d"),
    ("num-sorted-run.compaction-trigger", "3"),
    ("full-compaction.delta-commits", "5"),
    ("force-lookup", "true"),
    ("compaction.offpeak.start.hour", "3"),
]


def keyed(options: Mapping[str, str]) -> TableSchema:
    return create_schema(COLUMNS, ["dt", "id"], ["dt"], options, now=0)


def without_key(options: Mapping[str, str]) -> TableSchema:
    return create_schema(COLUMNS, [], ["dt"], options, now=0)


@pytest.mark.parametrize(("key", "value", "without", "needed", "note"), KEYED_TABLES)
def test_options_that_need_another_one(
    key: str, value: str, without: Mapping[str, str], needed: Mapping[str, str], note: str
) -> None:
    found = dict(table_options_without_effect(keyed({**without, key: value})))
    assert note in found.pop(key)
    assert found == {}
    assert table_options_without_effect(keyed({**needed, key: value})) == {}


@pytest.mark.parametrize(("key", "value"), WITH_A_KEY)
def test_options_that_need_a_key(key: str, value: str) -> None:
    assert "primary key" in table_options_without_effect(without_key({key: value}))[key]
    engine = {"merge-engine": "deduplicate", key: value}
    assert table_options_without_effect(keyed({**KEYED, **engine})) == {}


def test_options_of_tables_without_a_key() -> None:
    options = {"compaction.min.file-num": "8"}
    assert (
        "without a primary key" in table_options_without_effect(keyed({**KEYED, **options}))["compaction.min.file-num"]
    )
    assert table_options_without_effect(without_key(options)) == {}


def test_defaults_and_options_that_never_act() -> None:
    assert table_options_without_effect(without_key({"merge-engine": "deduplicate", "num-levels": "6"})) == {
        "num-levels": "it acts only in tables with a primary key"
    }
    assert "file.block-size" in table_options_without_effect(keyed({**KEYED, "file.block-size": "1 mb"}))


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if "options_without_effect" in record.getMessage()]
    caplog.clear()
    return found


def test_new_and_changed_tables_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = Catalog(str(tmp_path))
    catalog.create_database("shop")
    with caplog.at_level(logging.WARNING):
        table = catalog.create_table("shop.t", COLUMNS, options={"full-compaction.delta-commits": "5"})
        [message] = logged(caplog)
        assert "full-compaction.delta-commits (it acts only in tables with a primary key)" in message
        with table.writer() as writer:
            writer.commit()
        assert logged(caplog) == []
        catalog.alter_table("shop.t", [SetOption("ignore-delete", "true")])
        [message] = logged(caplog)
        assert "ignore-delete" in message
        assert "full-compaction" not in message
        report_table("shop.t", catalog.table("shop.t").definition)
        assert len(logged(caplog)) == 1
