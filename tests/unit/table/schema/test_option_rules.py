"""A table is refused when it is made for all that an ALTER would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError

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


def test_a_column_that_another_writer_dropped_is_to_be_removed_from_the_option(tmp_path: Path) -> None:
    """Java Paimon drops a column although an option names it."""
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("db")
    option = "file-index.bloom-filter.columns"
    table = catalog.create_table(
        "db.t", schema=[("a", "INT"), ("b", "INT"), ("c", "INT")], options={option: "a,b", "bucket": "-1"}
    )
    schemas = Path(table.path) / "schema"
    written = json.loads((schemas / "schema-0").read_text())
    written |= {"id": 1, "fields": written["fields"][1:]}
    (schemas / "schema-1").write_text(json.dumps(written))
    with pytest.raises(ConfigError, match="names 'a', which is not a column") as refused:
        catalog.alter_table("db.t", [penstock.AddColumn("d", "INT")])
    assert refused.value.hint == "columns are b, c, d; remove a dropped one from the option"
    catalog.alter_table("db.t", [penstock.SetOption(option, "b")])
    catalog.alter_table("db.t", [penstock.AddColumn("d", "INT")])
    assert [column.name for column in catalog.table("db.t").schema] == ["b", "c", "d"]
