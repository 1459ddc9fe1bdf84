"""aliyun-json, whose types are declared, as those of debezium-json are."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import formats
from penstock.formats.change import SourceField
from tests.unit.formats.support import read, rows


def aliyun(operation: str, row: dict[str, Any], **payload_members: Any) -> dict[str, Any]:
    side = "before" if operation in {"UPDATE_BEFORE", "DELETE"} else "after"
    columns = [{"name": "id", "type": "LONG"}, {"name": "day", "type": "DATE"}]
    return {
        "schema": {"dataColumn": columns, "primaryKey": ["id"], "source": {"dbName": "d", "tableName": "t"}},
        "payload": {"op": operation, side: {"dataColumn": row}, "timestamp": {"systemTime": 9}} | payload_members,
    }


def test_aliyun_operations() -> None:
    decoded = read(
        "aliyun-json",
        aliyun("INSERT", {"id": 1, "day": 1731661114000}),
        aliyun("UPDATE_BEFORE", {"id": 1, "day": 20042}),
        aliyun("UPDATE_AFTER", {"id": 1, "day": "2024-11-15"}),
        aliyun("UPDATE_AFTER", {"id": 1, "day": None}),
        aliyun("UPDATE_BEFORE", {"id": 1}),
        aliyun("UPDATE_AFTER", {"id": 2}),
        aliyun("UPDATE_BEFORE", {"id": 5}),
        aliyun("DELETE", {"id": 2, "extra": "x"}),
        aliyun("INSERT", {}, ddl="alter table"),
        {"schema": {"dataColumn": None, "primaryKey": None, "source": None}, "payload": {"op": "MHEARTBEAT"}},
        aliyun("TRANSACTION_BEGIN", {}),
    )
    assert rows(decoded) == [
        ("+I", {"id": "1", "day": "2024-11-15 08:58:34.000", "extra": None}),
        ("-U", {"id": "1", "day": "2024-11-15", "extra": None}),
        ("+U", {"id": "1", "day": "2024-11-15", "extra": None}),
        ("+U", {"id": "1", "day": None, "extra": None}),
        ("-D", {"id": "1", "day": None, "extra": None}),
        ("+I", {"id": "2", "day": None, "extra": None}),
        ("-U", {"id": "5", "day": None, "extra": None}),
        ("-D", {"id": "2", "day": None, "extra": "x"}),
    ]
    (batch,) = decoded.batches
    assert batch.schema.dialect == "aliyun"
    assert batch.schema.fields == (
        SourceField("id", "LONG"),
        SourceField("day", "DATE"),
        SourceField("extra", "STRING"),
    )
    assert set(batch.event_times.tolist()) == {9}
    assert decoded.skipped == {"DDL": 1, "MHEARTBEAT": 1, "TRANSACTION_BEGIN": 1}


def test_aliyun_bytes_are_base64() -> None:
    columns = [{"name": "id", "type": "LONG"}, {"name": "b", "type": "BYTES"}, {"name": "c", "type": "BLOB"}]

    def insert(value: Any) -> dict[str, Any]:
        message = aliyun("INSERT", {"id": 1, "b": value, "c": "/w=="})
        message["schema"]["dataColumn"] = columns
        return message

    decoded = read("aliyun-json", *map(insert, ["/w==", "", None, "ab", 5]))
    (batch,) = decoded.batches
    assert batch.rows.column("b").to_pylist() == [b"\xff", b"", None]
    assert batch.rows.column("c").to_pylist() == ["/w=="] * 3
    assert [bad.message for bad in decoded.bad] == [
        "the value of column b does not fit BYTES: 'ab'",
        "the value of column b does not fit BYTES: 5",
    ]


@pytest.mark.parametrize("name", ["UPDATE_BEFORE", "UPDATE_BEFOR"])
def test_aliyun_before_images_in_both_spellings(name: str) -> None:
    before = aliyun("UPDATE_BEFORE", {"id": 1})
    before["payload"]["op"] = name
    assert rows(read("aliyun-json", before, aliyun("UPDATE_AFTER", {"id": 2}))) == [
        ("-D", {"id": "1", "day": None}),
        ("+I", {"id": "2", "day": None}),
    ]


def test_aliyun_pair_without_before_images_is_one_row() -> None:
    pair = [aliyun("UPDATE_BEFORE", {"id": 1, "day": 1}), aliyun("UPDATE_AFTER", {"id": 1, "day": 2})]
    decoded = read("aliyun-json", *pair, before_images="key-changes")
    assert rows(decoded) == [("+U", {"id": "1", "day": "1970-01-03"})]


@pytest.mark.parametrize(("rows_at_once", "bytes_at_once"), [(1, 1 << 30), (2, 1 << 30), (100, 1), (100, 700)])
def test_a_pair_stays_together_where_messages_are_decoded_in_chunks(
    monkeypatch: pytest.MonkeyPatch, rows_at_once: int, bytes_at_once: int
) -> None:
    pairs = [aliyun(operation, {"id": 1}) for operation in ["INSERT", *["UPDATE_BEFORE", "UPDATE_AFTER"] * 4]]
    for number, message in enumerate(pairs):
        side = "before" if number % 2 else "after"
        message["payload"][side]["dataColumn"]["id"] = number
    whole = rows(read("aliyun-json", *pairs))
    assert [kind for kind, _ in whole] == ["+I", *["-D", "+I"] * 4]
    monkeypatch.setattr(formats, "CHUNK", rows_at_once)
    monkeypatch.setattr(formats, "CHUNK_BYTES", bytes_at_once)
    assert rows(read("aliyun-json", *pairs)) == whole
