"""Schema files: Java's JSON byte for byte, old versions' defaults, and versions that are taken but once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import TableCorrupt
from penstock.storage.base import Entry, Storage
from penstock.table.schema.json_file import pretty_json
from penstock.table.schema.schema_files import SchemaFiles, parse_schema, schema_json
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import STRING, Field, parse_type
from tests.unit.storage.memory_store import MemoryStore

# As Java Paimon 1.3.1 wrote it.
WRITTEN_BY_JAVA = """\
{
  "version" : 3,
  "id" : 2,
  "fields" : [ {
    "id" : 0,
    "name" : "k",
    "type" : "INT NOT NULL"
  }, {
    "id" : 1,
    "name" : "money",
    "type" : "DECIMAL(12, 2)",
    "description" : "naïve \\"quoted\\"",
    "defaultValue" : "0.00"
  }, {
    "id" : 2,
    "name" : "nested",
    "type" : {
      "type" : "ROW NOT NULL",
      "fields" : [ {
        "id" : 3,
        "name" : "list",
        "type" : {
          "type" : "ARRAY",
          "element" : "STRING"
        }
      } ]
    }
  } ],
  "highestFieldId" : 3,
  "partitionKeys" : [ ],
  "primaryKeys" : [ "k", "money" ],
  "options" : { },
  "comment" : "what\\u001F is",
  "timeMillis" : 1795217517614
}"""


def small_schema(schema_id: int = 0) -> TableSchema:
    return TableSchema(schema_id, (Field(0, "a", STRING),), 0, options={"bucket": "-1"}, time_millis=5)


def store_with(files: dict[str, bytes]) -> tuple[MemoryStore, SchemaFiles]:
    store = MemoryStore(files)
    return store, SchemaFiles(store, "/w/t")


def test_memory_store_is_a_storage() -> None:
    storage: Storage = MemoryStore()
    assert storage.list("/") == []


def test_schema_is_written_as_java_writes_it() -> None:
    assert schema_json(parse_schema(WRITTEN_BY_JAVA.encode(), "schema-2")).decode() == WRITTEN_BY_JAVA


def test_any_key_order_and_spacing_is_read() -> None:
    schema = parse_schema(WRITTEN_BY_JAVA.encode(), "schema-2")
    turned = dict(reversed(json.loads(WRITTEN_BY_JAVA).items()))
    assert parse_schema(json.dumps(turned).encode(), "schema-2") == schema


@pytest.mark.parametrize(
    ("version", "options"),
    [(1, {"bucket": "1", "file.format": "orc"}), (2, {"file.format": "orc"}), (3, {})],
)
def test_missing_options_of_old_versions_mean_what_they_meant(version: int, options: dict[str, str]) -> None:
    node = json.loads(WRITTEN_BY_JAVA) | {"version": version}
    assert parse_schema(json.dumps(node).encode(), "schema-2").options == options


def test_missing_version_is_the_first() -> None:
    node = json.loads(WRITTEN_BY_JAVA)
    del node["version"]
    assert parse_schema(json.dumps(node).encode(), "schema-2").options["bucket"] == "1"


def test_set_options_of_old_versions_are_kept() -> None:
    node = json.loads(WRITTEN_BY_JAVA) | {"version": 1, "options": {"bucket": "7", "file.format": "avro"}}
    assert parse_schema(json.dumps(node).encode(), "schema-2").options == {"bucket": "7", "file.format": "avro"}


@pytest.mark.parametrize("cut", [0, 1, 40, 300, len(WRITTEN_BY_JAVA) - 1])
def test_a_cut_schema_names_its_file(cut: int) -> None:
    with pytest.raises(TableCorrupt, match="t/schema/schema-2"):
        parse_schema(WRITTEN_BY_JAVA.encode()[:cut], "t/schema/schema-2")


def column(number: int, name: str, type_: object = "INT") -> dict[str, object]:
    return {"id": number, "name": name, "type": type_}


MEMBERS_OF_ONE_ID = {"type": "ROW", "fields": [column(7, "a"), column(7, "b")]}
DEEP = {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": MEMBERS_OF_ONE_ID}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "no 'id'"),
        ({"fields": "none"}, "'fields' should be an array"),
        ({"fields": [{"id": 1, "name": "x"}]}, "column: x"),
        ({"fields": [{"id": 1, "name": "x", "type": "BIGINTT"}]}, "did you mean BIGINT"),
        ({"fields": [{"id": 1, "name": "x", "type": {"type": "ROW", "fields": "y"}}]}, "column: x"),
        ({"fields": [7]}, "7 is not a column"),
        ({"options": {"bucket": 1}}, "'options' should be text"),
        ({"primaryKeys": [1]}, "'primaryKeys' should be text"),
        ({"highestFieldId": "3"}, "'highestFieldId' should be a whole number"),
        ({"highestFieldId": 1}, "highestFieldId 1 is below the id 2 of the column nested"),
        ({"fields": [column(0, "k"), column(1, "money"), column(1, "c")]}, "the columns money, c have one id, 1"),
        (
            {"fields": [column(0, "k"), column(1, "money"), column(2, "r", MEMBERS_OF_ONE_ID)]},
            "members a, b have one id, 7",
        ),
        ({"fields": [column(0, "k"), column(1, "money"), column(2, "r", DEEP)]}, "members a, b have one id, 7"),
        ({"primaryKeys": ["k", "gone"]}, "keys are not columns: gone"),
        ({"partitionKeys": ["gone"]}, "keys are not columns: gone"),
    ],
)
def test_invalid_schemas_are_refused_with_the_reason(change: dict[str, object], message: str) -> None:
    node = json.loads(WRITTEN_BY_JAVA) | change
    with pytest.raises(TableCorrupt, match=message) as refused:
        parse_schema(json.dumps(node).encode(), "schema-2")
    assert refused.value.facts["file"] == "schema-2"


def test_members_may_have_ids_of_columns_and_above_the_highest() -> None:
    """Readers look for a member among its siblings only, so such a file of another writer is read without harm."""
    members = {"type": "ROW", "fields": [column(number, f"m{number}") for number in range(9)]}
    node = json.loads(WRITTEN_BY_JAVA) | {"fields": [column(0, "k"), column(1, "money"), column(2, "r", members)]}
    assert parse_schema(json.dumps(node | {"highestFieldId": 2}).encode(), "schema-2").highest_field_id == 2


def test_the_latest_schema_has_the_greatest_number_among_other_files() -> None:
    names = ["schema-0", "schema-2", "schema-10", "schema-11.tmp", ".schema-12.9f.tmp", ".schema-0.crc", "schema--1"]
    store, files = store_with({f"/w/t/schema/{name}": schema_json(small_schema(10)) for name in names})
    store.files["/w/t/schema/schema-99/x"] = b""
    assert files.ids() == [0, 2, 10]
    assert files.latest() == small_schema(10)


def test_a_folder_without_schema_is_not_a_table() -> None:
    assert store_with({})[1].latest() is None


class StaleStore(MemoryStore):
    """Its listings do not show anything yet. It counts the requests."""

    requests = 0

    def list(self, path: str) -> list[Entry]:
        self.requests += 1
        return []

    def size(self, path: str) -> int:
        self.requests += 1
        return super().size(path)


def test_a_table_that_a_listing_does_not_show_yet_exists() -> None:
    store = StaleStore()
    files = SchemaFiles(store, "/w/t")
    assert files.latest() is None
    assert store.requests == 2
    for number in range(3):
        assert files.create(small_schema(number))
    assert files.latest() == small_schema(2)
    assert files.created_millis() == small_schema().time_millis


def test_a_table_that_was_dropped_has_no_time_of_creation() -> None:
    with pytest.raises(TableCorrupt, match="schema 0 is missing"):
        store_with({})[1].created_millis()


def test_a_schema_version_is_created_once() -> None:
    _, files = store_with({})
    assert files.create(small_schema())
    assert not files.create(TableSchema(0, (), 0))
    assert files.get(0) == small_schema()


def test_a_version_is_read_once() -> None:
    store, files = store_with({"/w/t/schema/schema-0": schema_json(small_schema())})
    first = files.get(0)
    store.files.clear()
    assert files.get(0) is first


def test_a_missing_version_is_named() -> None:
    with pytest.raises(TableCorrupt, match="/w/t/schema/schema-3"):
        store_with({})[1].get(3)


def test_a_branch_keeps_separate_schema_versions() -> None:
    store = MemoryStore()
    assert SchemaFiles(store, "/w/t", "dev").create(small_schema())
    assert list(store.files) == ["/w/t/branch/branch-dev/schema/schema-0"]
    assert SchemaFiles(store, "/w/t", "main").latest() is None


names = st.text(min_size=1, max_size=8)
types = st.recursive(
    st.sampled_from(["INT", "STRING NOT NULL", "DECIMAL(38, 10)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"]),
    lambda inner: st.one_of(
        st.builds(lambda element: {"type": "ARRAY NOT NULL", "element": element}, inner),
        st.builds(lambda key, value: {"type": "MAP", "key": key, "value": value}, inner, inner),
        st.builds(
            lambda members: {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in members]},
            st.lists(st.tuples(names, inner), max_size=3).map(lambda members: list(enumerate(members))),
        ),
    ),
    max_leaves=6,
)


def _whole(schema: TableSchema) -> TableSchema:
    """Columns and ids stand once, and keys are columns."""
    by_name = {column.name: column for column in schema.fields}.values()
    columns = tuple({column.id: column for column in by_name}.values())
    highest = max([schema.highest_field_id, *(column.id for column in columns)])
    keys = tuple(column.name for column in columns)
    counts = len(schema.partition_keys), len(schema.primary_keys)
    whole = replace(schema, fields=columns, highest_field_id=highest)
    return replace(whole, partition_keys=keys[: counts[0]], primary_keys=keys[: counts[1]])


fields = st.builds(
    Field, st.integers(0, 10**6), names, types.map(parse_type), st.none() | st.text(), st.none() | st.text()
)
schemas = st.builds(
    TableSchema,
    st.integers(0, 2**62),
    st.lists(fields, max_size=4).map(tuple),
    st.integers(0, 10**6),
    st.lists(names).map(tuple),
    st.lists(names).map(tuple),
    st.dictionaries(names, st.text()),
    st.none() | st.text(),
    st.integers(0, 2**62),
).map(_whole)


@pytest.mark.slow
@given(schemas)
def test_schemas_survive_their_file(schema: TableSchema) -> None:
    assert parse_schema(schema_json(schema), "schema-0") == schema


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_pretty_json_is_json(value: object) -> None:
    assert json.loads(pretty_json(value)) == value


def test_control_characters_are_escaped_in_upper_case_and_only_they() -> None:
    assert pretty_json("\x1f \\u001f \\\x0b\t é 😀") == '"\\u001F \\\\u001f \\\\\\u000B\\t é 😀"'.encode()


def test_a_replaced_schema_version_is_read_again() -> None:
    store = MemoryStore()
    reader, other = SchemaFiles(store, "/t"), SchemaFiles(store, "/t")
    fields = (Field(0, "k", parse_type("INT")),)
    for number in (0, 1):
        other.create(TableSchema(number, fields, 0))
    assert [reader.get(number).comment for number in reader.ids()] == [None, None]
    old = reader.get(1)
    store.write("/t/schema/schema-1", schema_json(TableSchema(1, fields, 0, comment="of a branch")))
    store.write("/t/schema/schema-0", schema_json(TableSchema(0, fields, 0, comment="of a branch")))
    latest = reader.latest()
    assert latest is not None
    assert (latest.comment, reader.get(0).comment) == ("of a branch", "of a branch")
    assert not reader.is_current(old)
    assert reader.is_current(latest)


def test_a_schema_version_is_read_once_while_its_file_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    files = SchemaFiles(store, "/t")
    files.create(TableSchema(0, (Field(0, "k", parse_type("INT")),), 0))
    files.latest()
    monkeypatch.setattr(store, "read", lambda path: pytest.fail(f"read {path} again"))
    assert files.latest() is files.get(0)
