"""Formats without declared types: maxwell-json, ogg-json, json, aws-dms-json."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.formats import FORMATS, decode
from penstock.formats.change import DecodeResult, Truncation
from tests.unit.formats.support import DATA, json_lines, messages, placed, read, recorded, rows


def maxwell(kind: str, data: Any, **members: Any) -> dict[str, Any]:
    return {"database": "d", "table": "t", "type": kind, "ts": 17, "xid": 1, "data": data} | members


def ogg(operation: str, before: Any, after: Any, **members: Any) -> dict[str, Any]:
    return {"table": "OGG.T", "op_type": operation, "before": before, "after": after} | members


def dms(operation: str, data: Any, **members: Any) -> dict[str, Any]:
    metadata = {"record-type": "data", "operation": operation, "schema-name": "d", "table-name": "t"} | members
    return {"data": data, "metadata": metadata}


def test_maxwell_operations() -> None:
    decoded = read(
        "maxwell-json",
        maxwell("insert", {"id": 1, "v": "a"}, primary_key_columns=["id"]),
        maxwell("bootstrap-insert", {"id": 2, "v": None}, primary_key_columns=["id"]),
        maxwell("update", {"id": 1, "v": "b"}, old={"v": "a"}, primary_key_columns=["id"]),
        maxwell("update", {"id": 3, "v": "b"}, old={"id": 1}, primary_key_columns=["id"]),
        maxwell("update", {"id": 3, "v": "b"}, primary_key_columns=["id"]),
        maxwell("delete", {"id": 3, "v": "b"}, primary_key_columns=["id"]),
    )
    assert rows(decoded) == [
        ("+I", {"id": "1", "v": "a"}),
        ("+I", {"id": "2", "v": None}),
        ("-U", {"id": "1", "v": "a"}),
        ("+U", {"id": "1", "v": "b"}),
        ("-D", {"id": "1", "v": "b"}),
        ("+I", {"id": "3", "v": "b"}),
        ("+U", {"id": "3", "v": "b"}),
        ("-D", {"id": "3", "v": "b"}),
    ]
    (batch,) = decoded.batches
    assert (batch.schema.dialect, batch.schema.database, batch.schema.table) == ("text", "d", "t")
    assert batch.schema.primary_keys == ("id",)
    assert set(batch.event_times.tolist()) == {17_000}


def test_maxwell_ddl_and_bootstrap_marks_are_skipped() -> None:
    decoded = read("maxwell-json", maxwell("bootstrap-start", {}), {"type": "table-alter", "old": {}, "def": {}})
    assert decoded.skipped == {"bootstrap-start": 1, "table-alter": 1}


@pytest.mark.parametrize("name", ["default", "all-outputs"])
def test_maxwell_recording(name: str) -> None:
    decoded = decode("maxwell-json", messages(*recorded(f"maxwell/mariadb-10.11_maxwell-1.22.6_{name}.jsonl")))
    assert decoded.skipped == {"table-alter": 11, "table-create": 3, "table-drop": 1}
    (first, *_) = [row for _, row in rows(decoded) if row.get("c_vc") == "中文 and 😀 emoji"]
    assert first["c_dec65"] == "12345678901234567890123456789012345.123456789012345678901234567891"
    assert first["c_bit64"] == "9223372036854775809"
    assert first["c_set"] == '["a","ç"]'


def test_ogg_operations_and_times() -> None:
    decoded = read(
        "ogg-json",
        ogg("I", None, {"ID": 1, "V": 1.10}, primary_keys=["ID"], op_ts="2020-05-13 17:32:10.904000", pos="1"),
        ogg("U", {"ID": 1, "V": 1.1}, {"ID": 1}, primary_keys=["ID"], op_ts="never"),
        ogg("D", {"ID": 1, "V_isMissing": True}, None, primary_keys=["ID"]),
        ogg("T", None, None),
        zone="Asia/Shanghai",
    )
    assert rows(decoded) == [
        ("+I", {"ID": "1", "V": "1.1"}),
        ("-U", {"ID": "1", "V": "1.1"}),
        ("+U", {"ID": "1", "V": "1.1"}),
        ("-D", {"ID": "1", "V": None}),
    ]
    (batch,) = decoded.batches
    assert batch.event_times.tolist() == [1589362330904, -1, -1, -1]
    assert decoded.truncations == [Truncation(3, "OGG", "T")]


@pytest.mark.parametrize(
    ("table", "parts", "name"),
    [
        ("S.T", None, ("S", "T")),
        ("C.S.T", None, ("S", "T")),
        ("C.S.T", 2, ("C", "S.T")),
        ("T", None, (None, "T")),
    ],
)
def test_ogg_table_names(table: str, parts: int | None, name: tuple[str | None, str | None]) -> None:
    (batch,) = read("ogg-json", ogg("I", None, {"a": 1}, table=table), ogg_name_parts=parts).batches
    assert (batch.schema.database, batch.schema.table) == name


def test_json_rows_and_arrays_of_rows() -> None:
    decoded = read("json", {"a": 1, "b": {"x": [1.50, None, "é"]}}, [{"a": "null"}, {"c": False, "a": None}])
    assert placed(decoded) == [
        (0, 1, "+I", {"a": "1", "b": '{"x":[1.5,null,"é"]}', "c": None}),
        (1, 1, "+I", {"a": "null", "b": None, "c": None}),
        (1, 3, "+I", {"a": None, "b": None, "c": "false"}),
    ]


def test_numbers_keep_their_digits() -> None:
    value = (
        b'{"a":1.10,"b":100.0,"c":1E3,"d":-1.5e-7,"e":123456789012345678901234567890,"f":1e999999999,"n":[1.10,2E2]}'
    )
    ((_, row),) = rows(read("json", value))
    assert row == {
        "a": "1.10",
        "b": "100.0",
        "c": "1000",
        "d": "-0.00000015",
        "e": "123456789012345678901234567890",
        "f": "1e999999999",
        "n": "[1.10,200]",
    }


def test_text_column_of_mixed_kinds() -> None:
    values = [{"a": value} for value in (1, "x", None, True, 2**70, [], {})]
    assert [row["a"] for _, row in rows(read("json", *values))] == ["1", "x", None, "true", str(2**70), "[]", "{}"]


def test_unpaired_surrogates_are_replaced_and_counted() -> None:
    decoded = read("json", rb'{"a":"\ud800","b":"\ud83d\ude00\udead\\ud800","c":"\u0000"}')
    assert rows(decoded) == [("+I", {"a": "\ufffd", "b": "😀\ufffd\\ud800", "c": "\x00"})]
    assert decoded.repaired == 2


def test_dms_operations() -> None:
    decoded = read(
        "aws-dms-json",
        dms("load", {"id": 1, "v": "a"}, timestamp="2024-10-27T12:39:03.210671Z"),
        dms("update", {"id": 1, "v": "b", "BI_v": "a", "BI_x": "own", "BI_BI_x": None}),
        dms("update", {"id": 1, "v": "c"}),
        dms("delete", {"id": 1, "BI_x": None}),
        dms("drop-table", {}, **{"record-type": "control"}),
    )
    assert rows(decoded) == [
        ("+I", {"id": "1", "v": "a", "BI_x": None}),
        ("-U", {"id": "1", "v": "a", "BI_x": None}),
        ("+U", {"id": "1", "v": "b", "BI_x": "own"}),
        ("+U", {"id": "1", "v": "c", "BI_x": None}),
        ("-D", {"id": "1", "v": None, "BI_x": None}),
    ]
    assert decoded.skipped == {"control": 1}
    assert decoded.batches[0].event_times.tolist()[:2] == [1730032743210, -1]


def test_dms_values_before_an_update_of_a_column_that_became_null() -> None:
    """Without IncludeNullAndEmpty the message lacks the column, and only its value before the update is there."""
    decoded = read("aws-dms-json", dms("update", {"id": 1, "BI_id": 1, "BI_v": "a"}), before_images="all")
    assert rows(decoded) == [("-U", {"id": "1", "v": "a"}), ("+U", {"id": "1", "v": None})]


@pytest.mark.parametrize("name", ["before-image", "old"])
def test_dms_values_before_an_update_in_an_object_beside_the_row(name: str) -> None:
    """BeforeImageSettings: pk-only has the changed columns of the key, all has every column."""

    def update(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
        return dms("update", after) | {name: before}

    decoded = read(
        "aws-dms-json",
        update({"id": 45, "v": "a"}, {"id": 46}),
        update({"id": 45, "v": "b"}, {}),
        update({"id": 45, "v": "c"}, {"id": 45}),
        json.dumps(update({"id": 45, "v": "d"}, {"id": 45, "v": "\ud800"})).encode(),
        update({"id": 45}, {"id": 45, "v": "d"}),
        before_images="all",
        watch_columns=frozenset({"id"}),
    )
    assert rows(decoded) == [
        ("-D", {"id": "46", "v": "a"}),
        ("+I", {"id": "45", "v": "a"}),
        ("+U", {"id": "45", "v": "b"}),
        ("+U", {"id": "45", "v": "c"}),
        ("-U", {"id": "45", "v": "\ufffd"}),
        ("+U", {"id": "45", "v": "d"}),
        ("-U", {"id": "45", "v": "d"}),
        ("+U", {"id": "45", "v": None}),
    ]


def test_dms_update_with_two_objects_beside_the_row_is_a_bad_record() -> None:
    [bad] = read("aws-dms-json", dms("update", {"id": 1}) | {"old": {}, "other": {}}).bad
    assert bad.message.startswith("it is unknown which of old, other has the values before the update")


@pytest.mark.parametrize(
    ("name", "value", "reason", "message"),
    [
        ("maxwell-json", {"data": {}}, "missing-field", "Invalid maxwell-json format: missing 'type' field."),
        ("maxwell-json", {"type": "insert"}, "missing-field", "missing 'data' field."),
        ("maxwell-json", {"type": "upsert", "data": {}}, "unknown-operation", "Unknown record operation: upsert"),
        ("ogg-json", {"table": "A.B"}, "missing-field", "missing 'op_type' field."),
        ("ogg-json", ogg("U", None, {}), "missing-field", "missing 'before' field when 'op_type' is 'U'."),
        ("ogg-json", ogg("I", {}, None), "missing-field", "missing 'after' field when 'op_type' is 'I'."),
        ("ogg-json", ogg("X", {}, {}), "unknown-operation", "Unknown record operation: X"),
        ("json", b"5", "not-json", "Expected"),
        ("json", b'{"a":' * 50_000, "not-json", "nested too deeply"),
        ("aws-dms-json", {"data": {}}, "missing-field", "missing 'metadata' field."),
        ("aws-dms-json", dms("merge", {}), "unknown-operation", "Unknown record operation: merge"),
        ("aws-dms-json", dms("insert", None), "missing-field", "missing 'data' field."),
    ],
)
def test_bad_records_are_named(name: str, value: Any, reason: str, message: str) -> None:
    (bad,) = read(name, value).bad
    assert bad.reason_class == reason
    assert message in bad.message


def test_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"This format: togg-json is not supported\."):
        read("togg-json")


@pytest.mark.parametrize("name", sorted({*FORMATS.built_in} - {"debezium-avro"}))
def test_empty_input_has_empty_output(name: str) -> None:
    decoded = decode(name.upper(), messages(None, None))
    assert decoded.skipped == {"tombstone": 2}
    assert not decoded.batches


@pytest.mark.parametrize("name", ["json", "maxwell-json", "ogg-json", "aws-dms-json", "canal-json"])
def test_row_of_too_many_columns_is_a_bad_record(name: str) -> None:
    row = {f"c{number}": 1 for number in range(10_001)}
    shapes = {"json": row, "maxwell-json": maxwell("insert", row), "ogg-json": ogg("I", None, row)}
    shapes |= {"aws-dms-json": dms("load", row), "canal-json": {"type": "INSERT", "data": [row]}}
    (bad,) = read(name, shapes[name]).bad
    assert bad.message == "10001 columns in one row, and at most 10000 are accepted"


def test_rows_with_few_members_in_common_make_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.formats.row_builder.MAX_CELLS", 100)
    decoded = read("json", *[{f"c{number}": number, f"d{number}": None} for number in range(40)])
    assert len(decoded.batches) > 3
    assert max(len(batch) * batch.rows.num_columns for batch in decoded.batches) <= 100
    assert [row[f"c{number}"] for number, (*_, row) in enumerate(placed(decoded))] == [str(n) for n in range(40)]


def test_the_two_rows_of_an_update_are_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.formats.row_builder.MAX_CELLS", 1)
    updates = [maxwell("update", {"id": number, f"c{number}": 1}, old={f"c{number}": 0}) for number in range(5)]
    decoded = read("maxwell-json", *updates)
    assert [[kind for kind, *_ in rows(DecodeResult([batch]))] for batch in decoded.batches] == [["-U", "+U"]] * 5


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = [
    "data",
    "old",
    "type",
    "table",
    "database",
    "before",
    "after",
    "op",
    "op_type",
    "metadata",
    "payload",
    "schema",
    "mysqlType",
    "pkNames",
    "isDdl",
    "ts",
]
SHAPED = st.dictionaries(st.sampled_from(MEMBERS), JSON | st.sampled_from(["INSERT", "UPDATE", "insert", "u", "U"]))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.one_of(st.binary(max_size=30), JSON, SHAPED), max_size=6))
@pytest.mark.parametrize("name", sorted({*FORMATS.built_in} - {"debezium-avro"}))
def test_anything_results_in_rows_or_bad_records(name: str, values: list[Any]) -> None:
    raw = [value if isinstance(value, bytes) else json.dumps(value).encode("utf-8", "replace") for value in values]
    decoded = decode(name, messages(*raw))
    placed(decoded)
    assert {bad.pos for bad in decoded.bad}.isdisjoint({pos for pos, *_ in placed(decoded)})


SAMPLES = {
    "maxwell": "maxwell-json",
    "ogg": "ogg-json",
    "json": "json",
    "aws-dms": "aws-dms-json",
    "aliyun": "aliyun-json",
}


@pytest.mark.parametrize(
    ("name", "path"),
    [(name, path) for folder, name in SAMPLES.items() for path in sorted(DATA.glob(f"cdc-samples/{folder}/*/*.txt"))],
    ids=lambda part: part if isinstance(part, str) else "-".join(part.parts[-2:]),
)
def test_samples_decode_without_bad_records(name: str, path: Any) -> None:
    decoded = decode(name, messages(*json_lines(path)))
    assert decoded.bad == []
    assert decoded.batches


def test_ogg_times_that_clocks_show_never_or_twice_are_read_as_java_reads_them() -> None:
    decoded = read(
        "ogg-json",
        ogg("I", None, {"ID": 1}, primary_keys=["ID"], op_ts="2024-03-31 02:30:00.000000"),
        ogg("I", None, {"ID": 2}, primary_keys=["ID"], op_ts="2024-10-27 02:30:00.000000"),
        zone="Europe/Berlin",
    )
    (batch,) = decoded.batches
    assert batch.event_times.tolist() == [1711848600000, 1729989000000]  # 01:30 and 00:30 UTC
