"""A table is refused when it is made for all that an ALTER would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.option_needs import table_options_without_effect

KEYED = ("id",)
REFUSED = {
    "unknown aggregate function": (KEYED, {"merge-engine": "aggregation", "fields.v.aggregate-function": "nosuch"}),
    "default aggregate of partial-update": (
        KEYED,
        {"merge-engine": "partial-update", "fields.default-aggregate-function": "nosuch"},
    ),
    "aggregate function without a sequence group": (
        KEYED,
        {"merge-engine": "partial-update", "fields.default-aggregate-function": "sum"},
    ),
    "clustering of a keyed table": (KEYED, {"clustering.incremental": "true", "clustering.columns": "v"}),
    "creating when read": (KEYED, {"auto-create": "true"}),
    "another kind of table": (KEYED, {"type": "format-table"}),
    "no kind of table": (KEYED, {"type": "anything"}),
    "period of tags": (KEYED, {"tag.automatic-creation": "process-time", "tag.creation-delay": "2 d"}),
    "pattern of partition times": (KEYED, {"partition.timestamp-formatter": "yyyy-QQ"}),
    "unknown scan mode": (KEYED, {"scan.mode": "nosuch"}),
    "scan mode without its point": (KEYED, {"scan.mode": "from-snapshot"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_create_and_alter_refuse_the_same_options(tmp_path: Path, name: str) -> None:
    keys, options = REFUSED[name]
    columns = [("id", "INT"), ("v", "INT")]
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("db")
    with pytest.raises(ConfigError) as created:
        catalog.create_table("db.t", columns, keys, options=options)
    assert not catalog.table_exists("db.t")
    catalog.create_table("db.t", columns, keys)
    with pytest.raises(ConfigError) as altered:
        catalog.alter_table("db.t", [penstock.SetOption(key, value) for key, value in options.items()])
    assert str(created.value) == str(altered.value)


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("file-index.bloom-filter.columns", {}),
        ("changelog-producer.row-deduplicate-ignore-fields", {"changelog-producer": "lookup"}),
    ],
)
def test_an_option_that_names_a_column_dropped_by_java_refuses_only_its_own_change(
    tmp_path: Path, option: str, more: dict[str, str]
) -> None:
    """Java Paimon drops such a column, and makes all later changes."""
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        [("a", "INT"), ("b", "INT"), ("c", "INT"), ("k", "INT")],
        ["k"],
        options={option: "a,b", "bucket": "1", **more},
    )
    schemas = Path(table.path) / "schema"
    written = json.loads((schemas / "schema-0").read_text())
    written |= {"id": 1, "fields": written["fields"][1:]}
    (schemas / "schema-1").write_text(json.dumps(written))
    catalog.alter_table("db.t", [penstock.AddColumn("d", "INT")])
    # Indexes are never written; `b` is still left out of comparisons.
    assert (option in table_options_without_effect(catalog.table("db.t").definition)) == (not more)
    with pytest.raises(ConfigError, match=f"{option} names 'b', which is not a column"):
        catalog.alter_table("db.t", [penstock.DropColumn("b")])
    with pytest.raises(ConfigError, match=f"{option} names 'x', which is not a column"):
        catalog.alter_table("db.t", [penstock.SetOption(option, "a,x")])
    with catalog.table("db.t").writer() as writer:
        writer.write(pa.table({name: pa.array([1], pa.int32()) for name in "bcdk"}))
        writer.commit()
    catalog.table("db.t").compact(full=True)
    catalog.alter_table("db.t", [penstock.SetOption(option, "b")])
    with pytest.raises(ConfigError, match=f"{option} names 'a', which is not a column") as refused:
        catalog.alter_table("db.t", [penstock.SetOption(option, "a,b")])
    assert refused.value.hint == "columns are b, c, k, d; remove a dropped one from the option"


def test_ignored_fields_stay_in_effect_after_java_drops_one_of_them(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("db")
    option = "changelog-producer.row-deduplicate-ignore-fields"
    lookup = {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true", "bucket": "1"}
    columns = [("a", "INT"), ("b", "INT"), ("k", "INT")]
    table = catalog.create_table("db.t", columns, ["k"], options={option: "a,b", **lookup})
    schemas = Path(table.path) / "schema"

    def drop_as_java(version: int) -> None:
        written = json.loads((schemas / f"schema-{version}").read_text())
        written |= {"id": version + 1, "fields": written["fields"][1:]}
        (schemas / f"schema-{version + 1}").write_text(json.dumps(written))

    def changes(value: int) -> int | None:
        with catalog.table("db.t").writer() as writer:
            names = catalog.table("db.t").schema.names
            writer.write(pa.table({name: pa.array([1 if name == "k" else value], pa.int32()) for name in names}))
            writer.commit()
        return catalog.table("db.t").snapshots[-1].changelog_record_count

    assert changes(1) == 1
    drop_as_java(0)
    assert changes(2) == 0
    assert option not in table_options_without_effect(catalog.table("db.t").definition)
    drop_as_java(1)
    assert option in table_options_without_effect(catalog.table("db.t").definition)
