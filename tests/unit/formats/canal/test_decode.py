"""canal-json: what each kind of message gives, and that bulk and record path give the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, ImageRule, SourceField, Truncation
from tests.unit.formats.support import DATA, json_lines, messages, placed, read, recorded, rows

ALL_BULK, ALL_RECORDS = 0, 1 << 40
PATHS = pytest.mark.parametrize("bulk_rows", [ALL_BULK, ALL_RECORDS], ids=["bulk", "records"])


def change(kind: str, data: Any, old: Any = None, **members: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "data": data,
        "database": "shop",
        "isDdl": False,
        "mysqlType": {"id": "bigint", "v": "varchar(10)"},
        "old": old,
        "pkNames": ["id"],
        "table": "t",
        "ts": 1700000000000,
        "type": kind,
    }
    return base | members


@PATHS
def test_insert_update_delete_in_message_order(bulk_rows: int) -> None:
    decoded = read(
        "canal-json",
        change("INSERT", [{"id": "1", "v": "a"}, {"id": "2", "v": None}]),
        change("UPDATE", [{"id": "1", "v": "b"}], [{"v": "a"}]),
        change("DELETE", [{"id": "2", "v": None}]),
        bulk_rows=bulk_rows,
    )
    assert placed(decoded) == [
        (0, 1, "+I", {"id": "1", "v": "a"}),
        (0, 3, "+I", {"id": "2", "v": None}),
        (1, 0, "-U", {"id": "1", "v": "a"}),
        (1, 1, "+U", {"id": "1", "v": "b"}),
        (2, 0, "-D", {"id": "2", "v": None}),
    ]
    (batch,) = decoded.batches
    assert batch.schema.dialect == "mysql"
    assert batch.schema.primary_keys == ("id",)
    assert batch.schema.fields == (SourceField("id", "bigint"), SourceField("v", "varchar(10)"))
    assert set(batch.event_times.tolist()) == {1700000000000}


@PATHS
@pytest.mark.parametrize("images", ["all", "key-changes"])
def test_changed_key_is_delete_and_insert(bulk_rows: int, images: str) -> None:
    update = change(
        "UPDATE",
        [{"id": "5", "v": "x"}, {"id": "6", "v": "y"}, {"id": "7", "v": "z"}],
        [{"id": "4"}, {"id": "6", "v": "before"}, None],
    )
    decoded = read("canal-json", update, bulk_rows=bulk_rows, before_images=images)
    whole = [
        (0, 0, "-D", {"id": "4", "v": "x"}),
        (0, 1, "+I", {"id": "5", "v": "x"}),
        (0, 2, "-U", {"id": "6", "v": "before"}),
        (0, 3, "+U", {"id": "6", "v": "y"}),
        (0, 4, "-U", {"id": "7", "v": "z"}),
        (0, 5, "+U", {"id": "7", "v": "z"}),
    ]
    assert placed(decoded) == [row for row in whole if images == "all" or row[2] != "-U"]


@PATHS
def test_watched_column_moves_the_row(bulk_rows: int) -> None:
    update = change("UPDATE", [{"id": "1", "v": "new"}], [{"v": None}])
    rule = ImageRule("key-changes", frozenset({"V"}))
    decoded = read("canal-json", update, bulk_rows=bulk_rows, tables={("shop", "t"): rule})
    assert rows(decoded) == [("-D", {"id": "1", "v": None}), ("+I", {"id": "1", "v": "new"})]


@PATHS
def test_escaped_column_name_in_old_is_found(bulk_rows: int) -> None:
    value = json.dumps(change("UPDATE", [{"id": "2", "v": "a"}], [{"id": "1"}])).encode()
    value = value.replace(b'[{"id": "1"}]', rb'[{"\u0069d": "1"}]')
    decoded = read("canal-json", value, bulk_rows=bulk_rows, before_images="key-changes")
    assert rows(decoded) == [("-D", {"id": "1", "v": "a"}), ("+I", {"id": "2", "v": "a"})]


@PATHS
def test_equal_rows_in_one_update_are_two_updates(bulk_rows: int) -> None:
    decoded = read("canal-json", change("UPDATE", [{"id": "1", "v": "a"}] * 2, [{"v": "b"}]), bulk_rows=bulk_rows)
    assert [kind for kind, _ in rows(decoded)] == ["-U", "+U", "-U", "+U"]


@PATHS
def test_columns_are_those_of_mysql_type(bulk_rows: int) -> None:
    decoded = read("canal-json", change("INSERT", [{"extra": "x", "v": "a"}]), bulk_rows=bulk_rows)
    assert rows(decoded) == [("+I", {"id": None, "v": "a"})]


def test_without_mysql_type_all_members_are_untyped_columns() -> None:
    bare = {"data": [{"b": 1.10, "a": None}, {"a": True, "c": {"x": [1, "y"]}}], "type": "INSERT"}
    decoded = read("canal-json", json.dumps(bare).replace("1.1,", "1.10,").encode())
    assert rows(decoded) == [
        ("+I", {"b": "1.10", "a": None, "c": None}),
        ("+I", {"b": None, "a": "true", "c": '{"x":[1,"y"]}'}),
    ]
    (batch,) = decoded.batches
    assert (batch.schema.dialect, batch.schema.database, batch.schema.table) == ("text", None, None)
    assert all(field.type is None for field in batch.schema.fields)
    assert batch.event_times.tolist() == [-1, -1]


def test_declared_types_divide_the_batches() -> None:
    wider = change("INSERT", [{"id": "2"}], mysqlType={"id": "bigint"})
    decoded = read("canal-json", change("INSERT", [{"id": "1", "v": "a"}]), wider, change("INSERT", [{"id": "3"}]))
    assert [[field.name for field in batch.schema.fields] for batch in decoded.batches] == [["id", "v"], ["id"]]
    assert [batch.positions.tolist() for batch in decoded.batches] == [[0, 2], [1]]


@pytest.mark.parametrize("keys", [None, []])
def test_keyless_table_has_no_keys(keys: list[str] | None) -> None:
    (batch,) = read("canal-json", change("INSERT", [{"id": "1"}], pkNames=keys)).batches
    assert batch.schema.primary_keys == ()


def test_messages_without_rows_are_counted_by_operation() -> None:
    query = change("QUERY", None, database="", table="", isDdl=False)
    truncate = change("TRUNCATE", None, isDdl=True)
    decoded = read("canal-json", None, query, change("ALTER", None, isDdl=True), truncate)
    assert decoded.skipped == {"tombstone": 1, "QUERY": 1, "ALTER": 1, "TRUNCATE": 1}
    assert decoded.truncations == [Truncation(3, "shop", "t")]
    assert not decoded.bad
    assert not decoded.batches


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (b"\x00\xff", "not-json", "the value is not a JSON record of this format"),
        (b"[1]", "not-json", "Expected `object`, got `array`"),
        (b'{"data":' + b"[" * 100_000, "not-json", "nested too deeply"),
        (change("INSERT", None), "missing-field", "Invalid canal-json format: missing 'data' field."),
        (change("UPDATE", [{}]), "missing-field", "missing 'old' field when 'type' is 'UPDATE'."),
        ({"data": [{}]}, "missing-field", "Invalid canal-json format: missing 'type' field."),
        (change("MERGE", [{}]), "unknown-operation", "Unknown record operation: MERGE"),
        (change("INSERT", [{"id": "1"}, None]), "not-json", "Expected `object`, got `null`"),
        (change("INSERT", ["1"]), "not-json", "Expected `object`, got `str`"),
        (change("INSERT", [{}], mysqlType={"id": 1}), "bad-value", "mysqlType or pkNames cannot be read"),
        (change("UPDATE", [{"id": "1"}], ["x"]), "not-json", "Expected"),
    ],
)
@PATHS
def test_a_bad_record_has_a_reason_and_the_others_are_decoded(
    bulk_rows: int, value: Any, reason: str, message: str
) -> None:
    good = change("INSERT", [{"id": "1", "v": "a"}])
    decoded = decode("Canal-JSON", messages(good, value, good, first=7), DecodeOptions(bulk_rows=bulk_rows))
    (bad,) = decoded.bad
    assert (bad.pos, bad.reason_class) == (8, reason)
    assert message in bad.message
    assert bad.raw == messages(value).values[0]
    assert [pos for pos, *_ in placed(decoded)] == [7, 9]


@PATHS
def test_a_value_that_does_not_fit_makes_its_message_bad(bulk_rows: int) -> None:
    types = {"id": "int", "e": "enum('a','b')"}
    decoded = read(
        "canal-json",
        change("INSERT", [{"id": "1", "e": "1"}, {"id": "2", "e": "9"}], mysqlType=types),
        change("INSERT", [{"id": "3", "e": "2"}], mysqlType=types),
        bulk_rows=bulk_rows,
    )
    (bad,) = decoded.bad
    assert (bad.pos, bad.reason_class) == (0, "bad-value")
    assert bad.message == "the value of column e does not fit ENUM: option 9, but the type has only 2 options"
    assert [row["id"] for *_, row in placed(decoded)] == ["3"]


@PATHS
def test_texts_become_values_of_their_type(bulk_rows: int) -> None:
    types = {
        "e": "enum('it''s', 'b')",
        "s": "SET('a','b','c')",
        "b1": "bit(1)",
        "b9": "bit(9)",
        "b64": "bit(64)",
        "bin": "varbinary(10)",
        "geo": "point",
        "d": "decimal(10,2)",
    }
    values = {
        "e": ["1", "2", "0", "", "b", None],
        "s": ["5", "0", "a,c", "", "7", None],
        "b1": ["1", "0", "1", "0", "1", None],
        "b9": ["511", "0", "256", "1", "2", None],
        "b64": ["18446744073709551615", "0", "1", "2", "1991", None],
        "bin": ["ab", "\u00ff\u0000\u0080", "中\u00ff", "", "é", None],
        "geo": ["\0\0\0\0\x01\x01" + "\0" * 19, "\0\0\0\0\x01\x01\0\0\0" + "\0\0\0\0\0\0ø¿" * 2, *[None] * 4],
        "d": ["10.0", "0.0", "1", "-2.50", "1e2", None],
    }
    data = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    got = [row for _, row in rows(read("canal-json", change("INSERT", data, mysqlType=types), bulk_rows=bulk_rows))]
    assert [row["e"] for row in got] == ["it's", "b", "", "", "b", None]
    assert [row["s"] for row in got] == [["a", "c"], [], ["a", "c"], [], ["a", "b", "c"], None]
    assert [row["b1"] for row in got] == values["b1"]
    assert [row["b9"] for row in got] == [b"\x01\xff", b"\0\0", b"\x01\0", b"\0\x01", b"\0\x02", None]
    assert [row["b64"] for row in got] == [
        b"\xff" * 8,
        b"\0" * 8,
        b"\0" * 7 + b"\1",
        b"\0" * 7 + b"\2",
        b"\0" * 6 + b"\7\xc7",
        None,
    ]
    assert [row["bin"] for row in got] == [b"ab", b"\xff\0\x80", "中\u00ff".encode(), b"", b"\xe9", None]
    assert got[0]["geo"] == '{"coordinates":[0,0],"type":"Point","srid":0}'
    assert got[1]["geo"] == '{"coordinates":[-1.5,-1.5],"type":"Point","srid":0}'
    assert [row["d"] for row in got] == values["d"]


@PATHS
def test_odd_json_in_rows_reads_as_text(bulk_rows: int) -> None:
    odd = b'[{"id": 1, "v": 1.10}, {"v":"first","v":"last"}, {"v":"\\ud800x\\u0000","id":12345678901234567890123}]'
    value = json.dumps(change("INSERT", "DATA")).encode().replace(b'"DATA"', odd)
    decoded = read("canal-json", value, bulk_rows=bulk_rows)
    assert rows(decoded) == [
        ("+I", {"id": "1", "v": "1.10"}),
        ("+I", {"id": None, "v": "last"}),
        ("+I", {"id": "12345678901234567890123", "v": "\ufffdx\x00"}),
    ]
    assert decoded.repaired == 1


@pytest.mark.slow
@PATHS
def test_rows_without_content_of_many_columns_are_refused(bulk_rows: int) -> None:
    types = {f"column {number}": "int" for number in range(9000)}
    hollow = change("INSERT", [{}] * 5000, mysqlType=types)
    good = change("INSERT", [{"column 0": "1"}], mysqlType=types)
    decoded = read("canal-json", good, hollow, good, bulk_rows=bulk_rows)
    (bad,) = decoded.bad
    assert (bad.pos, bad.message) == (1, "the rows of the record contain almost none of its 9000 columns")
    assert [batch.positions.tolist() for batch in decoded.batches] == [[0, 2]]


@PATHS
def test_large_groups_are_decoded_in_parts(bulk_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.formats.canal.decode.SPAN_BYTES", 130)
    inserts = [change("INSERT", [{"id": str(number), "v": "x" * 30}]) for number in range(6)]
    decoded = read("canal-json", *inserts, bulk_rows=bulk_rows)
    assert [batch.positions.tolist() for batch in decoded.batches] == [[0, 1], [2, 3], [4, 5]]


TEXT = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6), st.just("1"))
ROW = st.fixed_dictionaries({}, optional={"id": TEXT, "v": TEXT, "e": st.sampled_from(["1", "2", "x"]), "new": TEXT})
ODD = st.sampled_from([1, 2.5, True, [], {"a": 1}, None])
ODD_ROW = st.dictionaries(st.sampled_from(["id", "v", "b"]), st.one_of(TEXT, ODD), max_size=3)
TYPES = {"id": "bigint", "v": "varchar(10)", "e": "enum('a','b')", "b": "blob"}


@st.composite
def canal_messages(draw: st.DrawFn) -> dict[str, Any]:
    data = draw(st.lists(st.one_of(ROW, ODD_ROW) if draw(st.integers(0, 9)) == 0 else ROW, max_size=4))
    old = draw(st.lists(st.one_of(st.none(), ROW), max_size=4))
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
    return change(kind, data, old if kind == "UPDATE" else None, mysqlType=TYPES, table=draw(st.sampled_from("tu")))


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 4 // 5, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(canal_messages(), min_size=1, max_size=8),
    st.sampled_from(["all", "key-changes"]),
    st.sets(st.sampled_from(["v", "E", "b"])),
    st.booleans(),
)
def test_bulk_and_record_path_return_the_same(
    values: list[dict[str, Any]], images: str, watch: set[str], ascii_only: bool
) -> None:
    raw = [json.dumps(value, ensure_ascii=ascii_only).encode() for value in values]
    results = [
        decode("canal-json", messages(*raw), DecodeOptions(images, frozenset(watch), bulk_rows=size))
        for size in (ALL_BULK, ALL_RECORDS)
    ]
    bulk, records = ((placed(result), sorted(result.bad, key=lambda bad: bad.pos)) for result in results)
    assert bulk == records


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_random_bytes_result_in_rows_or_bad_records(data: st.DataObject) -> None:
    seed = json.dumps(change("UPDATE", [{"id": "1", "v": "ü"}], [{"id": "2"}]), ensure_ascii=False).encode()
    broken = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    values = [bytes(broken), data.draw(st.binary(max_size=40)), seed]
    for size in (ALL_BULK, ALL_RECORDS):
        decoded = decode("canal-json", messages(*values), DecodeOptions(bulk_rows=size))
        seen = {pos for pos, *_ in placed(decoded)} | {bad.pos for bad in decoded.bad}
        assert {1, 2} <= seen


@PATHS
def test_recorded_all_types(bulk_rows: int) -> None:
    lines = recorded("canal/mysql-9.7_canal-1.1.7_flat.jsonl")
    decoded = decode("canal-json", messages(*lines), DecodeOptions(bulk_rows=bulk_rows))
    assert not decoded.bad
    (first, *_) = [row for _, row in rows(decoded) if row.get("c_vc") == "中文 and 😀 emoji"]
    assert first["c_enum"] == "中"
    assert first["c_set"] == ["a", "ç"]
    assert first["c_bit8"] == b"\xa5"
    assert first["c_bit33"] == bytes.fromhex("0100000001")
    assert first["c_bit64"] == bytes.fromhex("8000000000000001")
    assert first["c_bin"] == b"\1\2\3\4"
    assert first["c_vb"] == bytes.fromhex("deadbeef")
    assert first["c_b"] == b"\x00\x01\xff"
    assert first["c_pt"] == '{"coordinates":[-1.5,2.5],"type":"Point","srid":0}'
    assert first["c_gc"].startswith('{"geometries":[{"type":"Point","coordinates":[1,1]},{"type":"LineString"')
    assert first["c_dec65"] == "12345678901234567890123456789012345.123456789012345678901234567891"


@pytest.mark.parametrize("name", ["mariadb-10.11_canal-1.1.7_flat", "mysql-9.7_canal-1.1.7_flat"])
def test_recorded_changes_have_no_bad_record(name: str) -> None:
    decoded = decode("canal-json", messages(*recorded(f"canal/{name}.jsonl")))
    # The shifted line of the MariaDB recording fits text; that it does not fit BIGINT shows when it is cast.
    assert decoded.bad == []
    moved = [(kind, row["order_id"]) for kind, row in rows(decoded) if row.get("order_id") in {"1", "1000"}]
    assert ("-D", "1") in moved
    assert ("+I", "1000") in moved
    assert decoded.skipped["TRUNCATE"] >= 1


@pytest.mark.parametrize(
    "path", sorted((DATA / "cdc-samples/canal").glob("*/*.txt")), ids=lambda p: "-".join(p.parts[-2:])
)
def test_samples_decode_without_bad_records(path: Any) -> None:
    decoded = decode("canal-json", messages(*json_lines(path)))
    assert decoded.bad == []
    assert decoded.batches
