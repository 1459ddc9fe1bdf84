"""Changed messages of every format: decoding never raises, and what it gives fits columns of any type or is named."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import SchemaConflict
from penstock.formats import FORMATS, decode
from penstock.formats.change import ChangeBatch, DecodeOptions, DecodeResult, SourceField, SourceSchema
from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.formats.row_message import row_message
from penstock.row_kinds import DELETE, INSERT
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import paimon_type
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.types import Field, parse_type
from tests.avro import change, envelope, optional
from tests.fuzz.mutations import SECONDS, changed, changed_document, in_one_of_eight, seeds, with_seed, within_memory
from tests.unit.formats.support import DATA, json_lines, messages, placed
from tests.unit.formats.test_fuzz import SEEDS

TARGETS = [
    *("BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 38)", "CHAR(3)", "STRING"),
    *("BINARY(2)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(9)", "VARIANT"),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    {"type": "ARRAY", "element": "INT"},
    {"type": "MAP", "key": "STRING", "value": "DATE"},
    {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]},
]
DECLARED = [
    *("", "(", ")(", "bit((8)", "decimal(,)", "tinyint(1)", "int unsigned zerofill", "json", "point", "year(2)"),
    *("bit(99)", "bit(0)", "bit(64)", "decimal(99,99)", "decimal(0)", "decimal(5,9)", "datetime(77)", "time(9)"),
    *("varchar(0)", "char(99999999999)", "binary(99999999999)", "enum()", "enum('a", "set('a','b')", "vector(0)"),
    "geometryxyz(3)",
]
CORPUS = Path(__file__).with_name("corpus")
WHOLE = envelope(
    {"name": "id", "type": "int"},
    {"name": "v", "type": optional({"type": "array", "items": "string"})},
    {"name": "n", "type": optional({"type": "long", "logicalType": "timestamp-micros"})},
)


class Changing(SchemaRegistry):
    """Answers with the schema that it is given."""

    answer: Any = WHOLE

    def schema(self, number: int) -> Any:
        return self.answer


def samples(name: str) -> list[Any]:
    """Messages of the format, each as a document."""
    if name == "row-json":
        return row_messages()
    found = list(SEEDS.get(name, []))
    folder = DATA / "cdc-samples" / name.removesuffix("-json")
    for path in sorted(folder.rglob("*.json"))[:8] if folder.is_dir() else ():
        found += [json.loads(line) for line in json_lines(path)[:3]]
    return found


def row_messages() -> list[Any]:
    """The messages that rows of a source without messages are kept as, when they are dead letters."""
    types = {"id": ("int8", pa.int64()), "name": ("text", pa.string()), "tags": ("text[]", pa.list_(pa.string()))}
    schema = SourceSchema(
        "postgres", "public", "t", tuple(SourceField(name, type_, None, True) for name, (type_, _) in types.items())
    )
    rows = pa.RecordBatch.from_pylist(
        [{"id": 7, "name": 'an "ä"', "tags": ["a,b", None]}, {"id": -1, "name": None, "tags": None}],
        pa.schema([(name, arrow) for name, (_, arrow) in types.items()]),
    )
    change = ChangeBatch(
        rows, np.array([INSERT, DELETE], np.int8), np.arange(2), np.array([1, 0], np.int32), schema, np.arange(2)
    )
    return [json.loads(row_message(change, [row])) for row in range(2)]


def fitted(decoded: DecodeResult, chance: random.Random) -> None:
    for batch in decoded.batches:
        for number, item in enumerate(batch.schema.fields):
            targets = [parse_type(chance.choice(TARGETS))]
            try:
                targets.append(paimon_type(batch.schema.dialect, item, TypeMapping()))
            except SchemaConflict:
                continue
            for type_ in targets:
                column = fit_column(batch.rows.column(number), Field(0, item.name, type_), TypeMapping(), Misfits())
                column.validate(full=True)


def measured(name: str, values: list[bytes], options: DecodeOptions) -> DecodeResult:
    """Decode; one time in eight within a limit of memory."""
    given = messages(*values)
    if not in_one_of_eight():
        return decode(name, given, options)
    found: list[DecodeResult] = []
    within_memory(lambda: found.append(decode(name, given, options)), values, sum(map(len, values)))
    return found[0]


def judged(name: str, values: list[bytes], chance: random.Random, **options: Any) -> None:
    began = time.process_time()
    try:
        for bulk_rows in (1, 1_000_000):
            decoded = measured(name, values, DecodeOptions(bulk_rows=bulk_rows, **options))
            assert {record.pos for record in decoded.bad} <= set(range(len(values)))
            placed(decoded)
            fitted(decoded, chance)
    except Exception as error:
        raise AssertionError(
            with_seed(f"{name} raised a {type(error).__name__} ({error}) for {values!r:.3000}")
        ) from error
    assert time.process_time() - began < SECONDS, with_seed(f"too slow: {values!r:.2000}")


@pytest.mark.parametrize("name", sorted({*FORMATS.built_in} - {"debezium-avro"}))
def test_changed_messages_are_decoded_or_are_bad_records(name: str, request: pytest.FixtureRequest) -> None:
    found = samples(name)
    for chance in seeds(request, 120, 20_000):
        values = []
        for _ in range(4):
            document = chance.choice(found)
            if chance.random() < 0.75:
                values.append(
                    json.dumps(changed_document(document, chance), ensure_ascii=False).encode("utf-8", "ignore")
                )
            else:
                values.append(changed(json.dumps(document).encode(), chance))
        judged(name, [*values, json.dumps(found[0]).encode()], chance)


@pytest.mark.parametrize("case", json.loads((CORPUS / "messages.json").read_text()), ids=lambda case: case["why"])
def test_messages_that_once_raised_are_decoded_or_bad_records(case: dict[str, Any]) -> None:
    values = [json.dumps(value).encode() for value in case["values"]]
    for number in range(10):
        judged(case["format"], values, random.Random(number))


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("name", ["canal-json", "aliyun-json"])
def test_any_declared_type_is_decoded_or_a_bad_record(name: str, declared: str, request: pytest.FixtureRequest) -> None:
    chance = next(seeds(request, 1, 1))
    values = []
    for text in ("1", "", "a,b", "2024-05-06", "-9", "9" * 60, "é", "\x00", None):
        document = json.loads(json.dumps(SEEDS[name][0]))
        if name == "canal-json":
            document["mysqlType"]["n"], document["data"][0]["n"] = declared, text
        else:
            document["schema"]["dataColumn"][1]["type"] = declared
            document["payload"]["after"]["dataColumn"]["n"] = text
        values.append(json.dumps(document).encode())
    judged(name, values, chance)


def test_changed_avro_messages_and_schemas_are_decoded_or_are_bad_records(request: pytest.FixtureRequest) -> None:
    good = change(1, WHOLE, "u", {"id": 1, "v": ["a"], "n": 5}, {"id": 2, "v": ["é", "ü"], "n": None})
    for chance in seeds(request, 200, 20_000):
        registry = Changing("http://nowhere")
        registry.answer = changed_document(WHOLE, chance) if chance.random() < 0.5 else WHOLE
        judged("debezium-avro", [changed(good, chance), good, changed(good, chance)], chance, registry=registry)
