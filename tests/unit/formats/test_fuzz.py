"""Hostile bytes at every place of a message, in every format: rows or bad records, soon, and in little memory."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, DecodeResult
from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import paimon_type
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.types import Field
from tests.avro import change, envelope, optional
from tests.unit.formats.support import messages, placed

ROW = {"id": "1", "n": "2.50", "d": "2024-05-06", "s": "é", "j": '{"a":[1]}'}
TYPES = {"id": "bigint", "n": "decimal(10,2)", "d": "date", "s": "varchar(9)", "j": "json"}
CONNECT = [
    {"field": "id", "type": "int64"},
    {"field": "n", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "s", "type": "string"},
    {"field": "j", "type": "struct", "name": "io.debezium.data.geometry.Point"},
]
POINT = "AQEAAAAAAAAAAADwPwAAAAAAAABA"
NAMES = {"schema-name": "d", "table-name": "t", "record-type": "data", "operation": "update"}
SOURCE = {"db": "d", "table": "t", "collection": "t"}
SEEDS: dict[str, list[dict[str, Any]]] = {
    "canal-json": [
        {"type": "UPDATE", "database": "d", "table": "t", "isDdl": False, "pkNames": ["id"], "mysqlType": types}
        | {"data": [ROW, ROW | {"id": "2"}], "old": [{"n": "1"}, None], "ts": 5}
        for types in (TYPES, None)
    ],
    "debezium-json": [
        {"op": "u", "before": {"n": 1}, "after": ROW, "source": SOURCE, "ts_ms": 5, "pkNames": ["id"]},
        {
            "schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": CONNECT}]},
            "payload": {
                "op": "c",
                "after": {
                    "id": 1,
                    "n": "ARc=",
                    "d": 19849,
                    "s": "é",
                    "j": {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None},
                },
                "source": SOURCE,
            },
        },
    ],
    "debezium-bson": [
        {"op": "u", "before": '{"_id":1}', "after": '{"_id":1,"d":{"$numberDecimal":"1.5"}}', "source": SOURCE},
    ],
    "maxwell-json": [
        {"type": "update", "database": "d", "table": "t", "data": ROW, "old": {"n": 1.5}, "ts": 5, "xid": 1}
        | {"primary_key_columns": ["id"]},
    ],
    "ogg-json": [
        {"table": "d.t", "op_type": "U", "before": ROW, "after": ROW, "primary_keys": ["id"], "pos": "1"}
        | {"op_ts": "2024-05-06 07:08:09.123456"},
    ],
    "json": [ROW],
    "aliyun-json": [
        {
            "schema": {
                "dataColumn": [{"name": name, "type": kind} for name, kind in TYPES.items()],
                "primaryKey": ["id"],
                "source": {"dbName": "d", "tableName": "t"},
            },
            "payload": {"op": "INSERT", "after": {"dataColumn": ROW}, "timestamp": {"systemTime": 5}},
        }
    ],
    "aws-dms-json": [{"data": {**ROW, "BI_n": "1"}, "metadata": NAMES}],
}
# Raw texts to stand where a value was. Long ones are what makes careless readers slow or greedy.
NASTY = {
    "deep list": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "as deep as it goes": b"[" * 400 + b"]" * 400,
    "unclosed": b"[" * 100_000,
    "a million digits": b"9" * 1_000_000,
    "a long fraction": b"0." + b"3" * 200_000,
    "a huge exponent": b"1E999999999",
    "a tiny exponent": b"-1E-999999999",
    "beyond doubles": b"1e400",
    "19 digits": b"9223372036854775808",
    "minus zero": b"-0",
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "lone surrogate": b'"\\ud800"',
    "wrong pair": b'"\\udc00\\ud800"',
    "text of a number": b'"' + b"9" * 100_000 + b'"',
    "text of an exponent": b'"1E99999"',
    "invalid UTF-8": b'"\xff\xfe\xc0\x80"',
    "overlong": b'"\xed\xa0\x80"',
    "NUL": b'"\\u0000"',
    "raw NUL": b'"\x00"',
    "line ends": b'"a\\r\\n\xe2\x80\xa8"',
    "twice the same name": b'{"a":1,"a":2,"a":{"a":3}}',
    "empty": b"",
    "null": b"null",
    "true": b"true",
    "a list": b"[1,[2],{}]",
    "an object": b'{"":{"$numberLong":"x"}}',
}


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(node, dict | list):
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(inner, (*path, key))


def with_instead(seed: Any, path: tuple[Any, ...], raw: bytes) -> bytes:
    if not path:
        return raw
    copy = json.loads(json.dumps(seed))
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = "@@"
    return json.dumps(copy).encode().replace(b'"@@"', raw)


def fitted(decoded: DecodeResult) -> None:
    """The values come into columns of the types that are declared, or are named as misfits."""
    for batch in decoded.batches:
        for number, item in enumerate(batch.schema.fields):
            type_ = paimon_type(batch.schema.dialect, item, TypeMapping())
            column = fit_column(batch.rows.column(number), Field(0, item.name, type_), TypeMapping(), Misfits())
            column.validate(full=True)


@pytest.mark.slow
@pytest.mark.parametrize("nasty", NASTY)
@pytest.mark.parametrize("name", SEEDS)
def test_an_odd_value_in_any_field_results_in_rows_or_bad_records(name: str, nasty: str) -> None:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for seed in SEEDS[name]:
        good = json.dumps(seed).encode()
        values = [good, *(with_instead(seed, path, NASTY[nasty]) for path in places(seed)), good]
        for bulk_rows in (1, 1_000_000):
            decoded = decode(name, messages(*values, keys=[b"{}"] * len(values)), DecodeOptions(bulk_rows=bulk_rows))
            bad = {record.pos for record in decoded.bad}
            assert bad.isdisjoint({0, len(values) - 1}), "its neighbours are none the worse"
            if len(NASTY[nasty]) < 1000:
                assert bad.isdisjoint(pos for pos, *_ in placed(decoded))
            fitted(decoded)
    assert time.process_time() - began < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


@pytest.mark.parametrize("name", SEEDS)
def test_truncated_and_repeated_messages_are_bad_records(name: str) -> None:
    for seed in SEEDS[name]:
        whole = json.dumps(seed).encode()
        cuts = [whole[:place] for place in range(0, len(whole), 7)]
        odd = [b"\xef\xbb\xbf" + whole, whole + whole, whole.decode().encode("utf-16"), whole[::-1], *cuts]
        decoded = decode(name, messages(*odd, whole))
        assert {record.pos for record in decoded.bad} == set(range(len(odd)))


def test_the_last_of_duplicate_names_is_used_in_bulk_and_per_record() -> None:
    head = b'{"type":"INSERT","database":"d","table":"t","pkNames":["id"],"mysqlType":{"id":"bigint","v":"int"},"data":'
    values = [head + b'[{"id":"1","v":"1","v":"2"},{"id":"2","id":"3","v":"4"}]}'] * 3
    found = [placed(decode("canal-json", messages(*values), DecodeOptions(bulk_rows=size))) for size in (1, 1_000_000)]
    assert found[0] == found[1]
    assert [row for *_, row in found[0]][:2] == [{"id": "1", "v": "2"}, {"id": "3", "v": "4"}]


VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.sampled_from(["1", "2024-05-06", "ARc=", "", [], {}, [1, None], {"a": 1.50}]),
)
MANY = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), VALUE), min_size=2, max_size=9)


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=MANY)
def test_messages_decode_together_as_each_alone(name: str, changes: list[tuple[int, int, Any]]) -> None:
    values = []
    for which, place, value in changes:
        seed = SEEDS[name][which % len(SEEDS[name])]
        paths = list(places(seed))[1:]
        values.append(with_instead(seed, paths[place % len(paths)], json.dumps(value).encode()))
    if name == "aliyun-json":  # whose pairs of messages are one change
        values = [value.replace(b"UPDATE", b"INSERT") for value in values]
    together = decode(name, messages(*values))
    alone = [decode(name, messages(value, first=number)) for number, value in enumerate(values)]
    assert text_rows([together]) == text_rows(alone)
    assert {bad.pos: bad.message for bad in together.bad} == {
        bad.pos: bad.message for item in alone for bad in item.bad
    }
    assert together.skipped == sum((item.skipped for item in alone), start=together.skipped.__class__())


def text_rows(found: list[DecodeResult]) -> list[Any]:
    """Rows with what is there; untyped batches of several messages have the columns of all of them."""
    rows = [item for decoded in found for item in placed(decoded)]
    kept = [(*head, {name: value for name, value in row.items() if value is not None}) for *head, row in rows]
    return sorted(kept, key=lambda item: item[:2])


@settings(max_examples=40, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=12)), min_size=2, max_size=8))
def test_avro_messages_decode_together_as_each_alone(changes: list[tuple[int, bytes]]) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "v", "type": optional({"type": "array", "items": "string"})}]
    whole = envelope(*fields, {"name": "n", "type": optional({"type": "long", "logicalType": "timestamp-micros"})})
    seed = change(1, whole, "u", {"id": 1, "v": ["a"], "n": 5}, {"id": 2, "v": ["é", "ü"], "n": None})

    class Fixed(SchemaRegistry):
        def schema(self, number: int) -> Any:
            return whole

    options = DecodeOptions(registry=Fixed("http://nowhere"))
    values = [seed[:5] + (seed[5 : 5 + at] + patch + seed[5 + at + len(patch) :]) for at, patch in changes]
    together = decode("debezium-avro", messages(*values), options)
    alone = [decode("debezium-avro", messages(value, first=at), options) for at, value in enumerate(values)]
    assert sorted(placed(together)) == sorted(item for decoded in alone for item in placed(decoded))
    assert {bad.pos for bad in together.bad} == {bad.pos for item in alone for bad in item.bad}
