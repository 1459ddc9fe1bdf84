"""Changing a schema: what comes of it, what Paimon refuses, and two at once."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.table.schema.changes import (
    AddColumn,
    DropColumn,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
    apply_changes,
    evolve,
)
from penstock.table.schema.column_changes import rename_in_options
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.schema_files import SchemaFiles, schema_json
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import RowType, type_json
from tests.unit.storage.memory_store import MemoryStore

BASE = create_schema(
    [
        ("k", "INT"),
        ("dt", "STRING"),
        ("v", "INT"),
        ("n", "STRING NOT NULL"),
        ("r", "ROW<x INT, y ARRAY<ROW<z INT>>>"),
        ("m", "MAP<STRING, INT>"),
    ],
    ["k", "dt"],
    ["dt"],
    {"bucket": "2", "sequence.field": "v"},
    "first",
    now=1,
)


def after(*changes: SchemaChange, base: TableSchema = BASE, has_snapshots: bool = True) -> TableSchema:
    return apply_changes(base, changes, has_snapshots, now=9)


def names(schema: TableSchema) -> str:
    return " ".join(schema.names)


def type_of(schema: TableSchema, *path: str) -> object:
    fields = schema.fields
    for name in path[:-1]:
        inner = next(field for field in fields if field.name == name).type
        assert isinstance(inner, RowType)
        fields = inner.fields
    return type_json(next(field for field in fields if field.name == path[-1]).type)


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (AddColumn("c", "INT"), "k dt v n r m c"),
        (AddColumn("c", "INT", first=True), "c k dt v n r m"),
        (AddColumn("c", "INT", after="v"), "k dt v c n r m"),
        (AddColumn("c", "INT", before="v"), "k dt c v n r m"),
        (UpdateColumnPosition("m", first=True), "m k dt v n r"),
        (UpdateColumnPosition("k", last=True), "dt v n r m k"),
        (UpdateColumnPosition("k", after="v"), "dt v k n r m"),
        (UpdateColumnPosition("m", after="v"), "k dt v m n r"),
        (UpdateColumnPosition("k", before="n"), "dt v k n r m"),
        (UpdateColumnPosition("m", before="dt"), "k m dt v n r"),
        (DropColumn("n"), "k dt v r m"),
        (RenameColumn("n", "name"), "k dt v name r m"),
    ],
)
def test_columns_are_added_dropped_and_moved(change: SchemaChange, order: str) -> None:
    assert names(after(change)) == order


def test_a_new_version_follows_the_old() -> None:
    changed = after(UpdateComment("second"))
    assert (changed.id, changed.time_millis, changed.comment, changed.version) == (1, 9, "second", 3)


def test_changes_without_effect_create_no_version() -> None:
    assert after(SetOption("bucket", "2"), ResetOption("write-only"), UpdateComment("first")) is BASE


def test_field_ids_are_never_reused() -> None:
    highest = BASE.highest_field_id
    dropped = after(DropColumn("n"))
    again = after(AddColumn("n", "ROW<a INT, b INT>", "back"), base=dropped)
    assert again.field("n").id == highest + 1
    assert again.highest_field_id == highest + 3
    assert again.field("n").description == "back"


def test_members_are_changed_by_their_path() -> None:
    changed = after(
        AddColumn("r.w", "BIGINT", after="x"),
        AddColumn("r.y.element.q", "STRING"),
        RenameColumn(("r", "x"), "xx"),
        UpdateColumnType("r.xx", "BIGINT"),
        UpdateColumnType("m.value", "BIGINT"),
        UpdateColumnComment("r.w", "wide"),
        DropColumn("r.y.element.z"),
    )
    assert type_of(changed, "m") == {"type": "MAP", "key": "STRING", "value": "BIGINT"}
    top = BASE.highest_field_id
    assert type_of(changed, "r") == {
        "type": "ROW",
        "fields": [
            {"id": 5, "name": "xx", "type": "BIGINT"},
            {"id": top + 1, "name": "w", "type": "BIGINT", "description": "wide"},
            {
                "id": 7,
                "name": "y",
                "type": {
                    "type": "ARRAY",
                    "element": {"type": "ROW", "fields": [{"id": top + 2, "name": "q", "type": "STRING"}]},
                },
            },
        ],
    }


def test_a_column_name_with_a_dot_is_preferred_to_a_path() -> None:
    base = create_schema([("a", "INT"), ("b.c", "INT")], now=1)
    assert names(after(RenameColumn("b.c", "d"), base=base)) == "a d"
    assert names(after(AddColumn(("e.f",), "INT"), base=base)) == "a b.c e.f"


def test_types_change_as_casts_allow() -> None:
    assert type_of(after(UpdateColumnType("v", "BIGINT")), "v") == "BIGINT"
    assert type_of(after(UpdateColumnType("v", "TINYINT")), "v") == "TINYINT"
    assert type_of(after(UpdateColumnType("n", "VARCHAR(3)")), "n") == "VARCHAR(3)"
    assert type_of(after(UpdateColumnType("n", "VARCHAR(3)", keep_nullability=True)), "n") == "VARCHAR(3) NOT NULL"
    with pytest.raises(ConfigError, match=r"'v' cannot become DATE: it is INT"):
        after(UpdateColumnType("v", "DATE"))
    careful = after(SetOption("disable-explicit-type-casting", "true"))
    with pytest.raises(ConfigError, match="may lose digits"):
        after(UpdateColumnType("v", "TINYINT"), base=careful)
    assert type_of(after(UpdateColumnType("v", "BIGINT"), base=careful), "v") == "BIGINT"


def test_the_same_constructed_type_keeps_its_ids() -> None:
    assert after(UpdateColumnType("r", "ROW<x INT, y ARRAY<ROW<z INT>>>")) is BASE
    with pytest.raises(ConfigError, match="members one by one"):
        after(UpdateColumnType("r", "ROW<x BIGINT>"))


def test_not_null_is_added_only_if_allowed() -> None:
    assert type_of(after(UpdateColumnNullability("n", nullable=True)), "n") == "STRING"
    for change in (UpdateColumnNullability("v", nullable=False), UpdateColumnType("v", "BIGINT NOT NULL")):
        with pytest.raises(ConfigError, match="cannot become NOT NULL"):
            after(change)
        allowed = after(SetOption("alter-column-null-to-not-null.disabled", "false"))
        assert str(type_of(after(change, base=allowed), "v")).endswith(" NOT NULL")


def test_defaults_can_be_read_as_their_type() -> None:
    assert after(UpdateColumnDefault("v", "7")).field("v").default == "7"
    with pytest.raises(ConfigError, match="'x' cannot be the default of INT"):
        after(UpdateColumnDefault("v", "x"))
    with_default = after(UpdateColumnDefault("v", "7"))
    assert after(UpdateColumnDefault("v", None), base=with_default).field("v").default is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (AddColumn("v", "INT"), "a column 'v' already"),
        (AddColumn("c", "INT NOT NULL"), "cannot be NOT NULL"),
        (AddColumn("c", "INT", first=True, after="v"), "one position"),
        (AddColumn("c", "INT", after="w"), "no column 'w'"),
        (AddColumn("_KEY_c", "INT"), "reserved"),
        (AddColumn("v.x", "INT"), "'v' has no members"),
        (AddColumn("w.x", "INT"), "no column 'w'"),
        (AddColumn("m.key", "INT"), "has no members"),
        (DropColumn("w"), "columns there are k, dt, v, n, r, m"),
        (DropColumn("r.w"), "no column 'r.w'"),
        (DropColumn("k"), "primary key column cannot be dropped"),
        (DropColumn("dt"), "partition column cannot be dropped"),
        (DropColumn("v"), "sequence.field names 'v'"),
        (DropColumn("r.y.element.z"), "the only column"),
        (RenameColumn("dt", "day"), "partition column cannot be renamed"),
        (RenameColumn("v", "n"), "a column 'n' already"),
        (RenameColumn("v", "rowkind"), "reserved"),
        (UpdateColumnType("k", "BIGINT"), "primary key column cannot be given another type"),
        (UpdateColumnType("dt", "INT"), "partition column cannot be given another type"),
        (UpdateColumnNullability("k", nullable=True), "cannot be made nullable"),
        (UpdateColumnPosition("v", after="v"), "before or after itself"),
        (UpdateColumnPosition("v"), "the new position of the column is not set"),
        (UpdateColumnPosition("w", first=True), "no column 'w'"),
        (SetOption("merge-engin", "first-row"), "did you mean merge-engine"),
        (SetOption("merge-engine", "first-row"), "cannot change on a table with snapshots"),
        (SetOption("bucket", "-1"), "cannot change from 2 to -1"),
        (SetOption("bucket", "two"), "not a whole number"),
        (SetOption("manifest.compression", "lzo"), "'lzo' is not a choice"),
        (SetOption("primary-key", "k"), "cannot change on a table with snapshots"),
        (SetOption("changelog-producer", "loud"), "choices are"),
        (ResetOption("bucket"), "cannot be reset"),
    ],
)
def test_refused_changes_report_the_reason(change: SchemaChange, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        after(change)


@pytest.mark.parametrize(
    "change",
    [
        DropColumn("k"),
        DropColumn("dt"),
        RenameColumn("dt", "day"),
        UpdateColumnType("k", "BIGINT"),
        UpdateColumnNullability("k", nullable=True),
    ],
)
def test_refused_changes_of_key_columns_name_the_way_out(change: SchemaChange) -> None:
    with pytest.raises(ConfigError) as refused:
        after(change)
    assert "insert the rows into it" in str(refused.value.hint)


def test_a_table_without_snapshots_accepts_any_layout_option() -> None:
    changed = after(SetOption("merge-engine", "partial-update"), SetOption("bucket", "-1"), has_snapshots=False)
    assert changed.options["merge-engine"] == "partial-update"
    append = create_schema([("a", "INT"), ("b", "INT")], now=1)
    keyed = after(SetOption("primary-key", "a"), base=append, has_snapshots=False)
    assert (keyed.primary_keys, keyed.options, type_of(keyed, "a")) == (("a",), {}, "INT NOT NULL")
    with pytest.raises(ConfigError, match="has a primary-key already") as refused:
        after(SetOption("primary-key", "b"), base=keyed, has_snapshots=False)
    assert refused.value.hint


def test_a_fixed_number_of_buckets_may_be_changed() -> None:
    assert after(SetOption("bucket", "8")).options["bucket"] == "8"


def test_renames_apply_to_keys_and_options() -> None:
    base = create_schema(
        [("k", "INT"), ("v", "INT"), ("w", "INT"), ("g", "INT")],
        ["k"],
        options={
            "bucket": "2",
            "bucket-key": "k",
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "v,w",
            "fields.v.aggregate-function": "sum",
            "fields.v.stats-mode": "full",
            "file-index.bloom-filter.columns": "v,w",
            "file-index.bloom-filter.v.fpp": "0.1",
        },
        now=1,
    )
    changed = after(RenameColumn("k", "key"), RenameColumn("v", "value"), RenameColumn("g", "group"), base=base)
    assert (changed.primary_keys, names(changed)) == (("key",), "key value w group")
    assert changed.options == {
        "bucket": "2",
        "bucket-key": "key",
        "merge-engine": "partial-update",
        "fields.group.sequence-group": "value,w",
        "fields.value.aggregate-function": "sum",
        "fields.value.stats-mode": "full",
        "file-index.bloom-filter.columns": "value,w",
        "file-index.bloom-filter.value.fpp": "0.1",
    }


def test_a_renamed_map_column_is_renamed_where_one_of_its_keys_has_an_index() -> None:
    base = create_schema(
        [("k", "INT"), ("m", "MAP<STRING, INT>"), ("mm", "INT")],
        ["k"],
        options={
            "bucket": "2",
            "file-index.bloom-filter.columns": "mm, m[a] , m[b],k",
            "file-index.bloom-filter.m[a].items": "10",
            "file-index.bloom-filter.mm.items": "20",
        },
        now=1,
    )
    assert after(RenameColumn("m", "labels"), base=base).options == {
        "bucket": "2",
        "file-index.bloom-filter.columns": "mm,labels[a],labels[b],k",
        "file-index.bloom-filter.labels[a].items": "10",
        "file-index.bloom-filter.mm.items": "20",
    }


def table() -> tuple[MemoryStore, SchemaFiles]:
    store = MemoryStore({"/t/schema/schema-0": schema_json(BASE)})
    return store, SchemaFiles(store, "/t")


def test_evolving_writes_the_next_schema_file() -> None:
    _, files = table()
    changed = evolve(files, [AddColumn("c", "INT")], has_snapshots=True, now=9)
    assert files.latest() == changed == after(AddColumn("c", "INT"))
    assert evolve(files, [UpdateComment("first")], has_snapshots=True, now=10) is files.latest()


def test_a_concurrent_schema_version_is_the_base_of_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    store, files = table()
    theirs = after(AddColumn("theirs", "INT"))
    create = store.create

    def lose_first(path: str, data: bytes) -> bool:
        if path.endswith("schema-1"):
            create(path, schema_json(theirs))
        return create(path, data)

    monkeypatch.setattr(store, "create", lose_first)
    changed = evolve(files, [AddColumn("ours", "INT")], has_snapshots=True, now=9)
    assert changed.id == 2
    assert names(changed).endswith("theirs ours")


@pytest.mark.parametrize("lands", [True, False])
def test_an_uncertain_reply_is_resolved_by_reading(lands: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store, files = table()

    def fail(path: str, data: bytes) -> bool:
        if lands:
            store.write(path, data)
        raise TimeoutError("no answer")

    monkeypatch.setattr(store, "create", fail)
    if lands:
        assert evolve(files, [AddColumn("c", "INT")], has_snapshots=True, now=9) == files.latest()
        assert files.ids() == [0, 1]
    else:
        with pytest.raises(TimeoutError):
            evolve(files, [AddColumn("c", "INT")], has_snapshots=True, now=9)


def test_a_check_may_refuse_a_version() -> None:
    _, files = table()

    def refuse(schema: TableSchema, before: TableSchema) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        evolve(files, [AddColumn("c", "INT")], has_snapshots=True, now=9, check=refuse)
    assert files.ids() == [0]


def test_evolving_a_missing_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="the table does not exist"):
        evolve(SchemaFiles(MemoryStore(), "/t"), [], has_snapshots=False, now=9)


def test_a_rename_does_not_change_other_parts_of_option_keys() -> None:
    """`fields.default-aggregate-function` names no column, although a column may have that name."""
    given = {"fields.default-aggregate-function": "sum", "fields.a.aggregate-function": "max"}
    assert rename_in_options(given, "default-aggregate-function", "b") == given
    assert rename_in_options(given, "a", "b")["fields.b.aggregate-function"] == "max"


@pytest.mark.parametrize(("type_", "refused"), [("BIGINT", True), ("STRING", True), ("INT", False)])
def test_a_bucket_key_keeps_the_buckets_of_its_rows(type_: str, refused: bool) -> None:
    """Java lets it change, and then conditions on it do not find the older rows."""
    base = create_schema([("k", "INT"), ("v", "INT")], [], [], {"bucket": "4", "bucket-key": "k"}, now=1)
    change = UpdateColumnType("k", type_)
    if refused:
        with pytest.raises(ConfigError, match="the bucket key 'k' cannot become") as error:
            after(change, base=base)
        assert "insert the rows into it" in str(error.value.hint)
    else:
        after(change, base=base)
    assert after(change, base=base, has_snapshots=False).fields[0].name == "k"
    after(UpdateColumnType("v", "BIGINT"), base=base)


def test_a_number_of_which_the_remainder_is_the_bucket_may_be_widened() -> None:
    options = {"bucket": "4", "bucket-key": "k", "bucket-function.type": "mod"}
    base = create_schema([("k", "INT"), ("v", "INT")], [], [], options, now=1)
    after(UpdateColumnType("k", "BIGINT"), base=base)
    with pytest.raises(ConfigError, match="the bucket key 'k' cannot become"):
        after(UpdateColumnType("k", "STRING"), base=base)


@pytest.mark.parametrize(("type_", "refused"), [("VARCHAR(9)", False), ("STRING", False), ("VARCHAR(3)", True)])
def test_a_text_that_is_a_bucket_key_may_become_longer(type_: str, refused: bool) -> None:
    base = create_schema([("k", "VARCHAR(5)"), ("v", "INT")], [], [], {"bucket": "4", "bucket-key": "k"}, now=1)
    if refused:
        with pytest.raises(ConfigError, match="the bucket key 'k' cannot become"):
            after(UpdateColumnType("k", type_), base=base)
    else:
        after(UpdateColumnType("k", type_), base=base)
