"""A message is recognised by the names of its envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.formats.resemblance import resembled_format

CANAL: dict[str, Any] = {
    "database": "shop",
    "table": "t",
    "isDdl": False,
    "type": "INSERT",
    "data": [{"id": "1"}],
    "ts": 1,
}
DEBEZIUM: dict[str, Any] = {"before": None, "after": {"id": 1}, "source": {"db": "shop"}, "op": "c", "ts_ms": 1}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (CANAL, "canal-json"),
        (DEBEZIUM, "debezium-json"),
        ({"schema": {}, "payload": DEBEZIUM}, "debezium-json"),
        (DEBEZIUM | {"source": {"db": "shop", "collection": "c"}, "after": "{}"}, "debezium-bson"),
        ({"schema": {}, "payload": DEBEZIUM | {"source": {"collection": "c"}}}, "debezium-bson"),
        ({"database": "shop", "table": "t", "type": "insert", "ts": 1, "xid": 2, "data": {"id": 1}}, "maxwell-json"),
        ({"table": "S.T", "op_type": "I", "op_ts": "2026-01-01", "pos": "1", "after": {"ID": 1}}, "ogg-json"),
        ({"metadata": {"operation": "insert"}, "data": {"id": 1}}, "aws-dms-json"),
        ({"version": "0.0.1", "schema": {}, "payload": {"before": None}}, "aliyun-json"),
        ({"id": 1, "type": "a", "data": 2}, None),
        ([CANAL], None),
        (5, None),
    ],
)
def test_a_format_is_recognised_by_names(message: object, name: str | None) -> None:
    assert resembled_format(json.dumps(message).encode()) == name


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"{", b"[" * 100_000])
def test_other_bytes_resemble_no_format(raw: bytes | None) -> None:
    assert resembled_format(raw) is None
