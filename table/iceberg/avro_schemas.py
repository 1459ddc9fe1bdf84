"""The Avro schemas of Iceberg's manifests and manifest lists, with the fields that Java Paimon writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock.table.values.types import AtomicType, DataType, Field

FIRST_PARTITION_ID = 1000
_NAME = re.compile(r"[^A-Za-z0-9_]")


def _field(name: str, number: int, type_: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", type_], "default": None, "field-id": number}
    return {"name": name, "type": type_, "field-id": number}


def _map(name: str, number: int, key: int, value: int, type_: str) -> dict[str, Any]:
    # Avro's own maps have only texts as keys.
    entry = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field("key", key, "int"), _field("value", value, type_)],
    }
    return _field(name, number, {"type": "array", "items": entry, "logicalType": "map"}, optional=True)


def avro_name(name: str) -> str:
    """Return the name of a partition column in characters that Avro allows. Iceberg's readers use field ids."""
    safe = _NAME.sub(lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{safe}" if safe[:1].isdigit() else safe


def entry_schema(partition: Sequence[Field]) -> dict[str, Any]:
    """Return the schema of manifests of a table with these partition columns."""
    columns = [
        _field(avro_name(field.name), FIRST_PARTITION_ID + place, _partition_type(field.type), optional=True)
        for place, field in enumerate(partition)
    ]
    file = [
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, {"type": "record", "name": "r102", "fields": columns}),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        _map("null_value_counts", 110, 121, 122, "long"),
        _map("lower_bounds", 125, 126, 127, "bytes"),
        _map("upper_bounds", 128, 129, 130, "bytes"),
        _field("referenced_data_file", 143, "string", optional=True),
        _field("content_offset", 144, "long", optional=True),
        _field("content_size_in_bytes", 145, "long", optional=True),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field("status", 0, "int"),
            _field("snapshot_id", 1, "long", optional=True),
            _field("sequence_number", 3, "long", optional=True),
            _field("file_sequence_number", 4, "long", optional=True),
            _field("data_file", 2, {"type": "record", "name": "r2", "fields": file}),
        ],
    }


def _partition_type(type_: DataType) -> Any:
    assert isinstance(type_, AtomicType)
    match type_.root:
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            zoned = type_.root == "TIMESTAMP_LTZ"
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": zoned}
        case "BOOLEAN" | "FLOAT" | "DOUBLE":
            return type_.root.lower()
        case "BIGINT":
            return "long"
        case "CHAR" | "VARCHAR":
            return "string"
        case "BINARY" | "VARBINARY":
            return "bytes"
    return "int"


_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field("contains_null", 509, "boolean"),
        _field("contains_nan", 518, "boolean", optional=True),
        _field("lower_bound", 510, "bytes", optional=True),
        _field("upper_bound", 511, "bytes", optional=True),
    ],
}


def list_schema(*, legacy: bool) -> dict[str, Any]:
    """Return the schema of manifest lists; `legacy` has the names of fields as of Iceberg 1.4."""
    files = "data_files" if legacy else "files"
    fields = [
        _field("manifest_path", 500, "string"),
        _field("manifest_length", 501, "long"),
        _field("partition_spec_id", 502, "int"),
        _field("content", 517, "int"),
        _field("sequence_number", 515, "long"),
        _field("min_sequence_number", 516, "long"),
        _field("added_snapshot_id", 503, "long", optional=True),
        _field(f"added_{files}_count", 504, "int"),
        _field(f"existing_{files}_count", 505, "int"),
        _field(f"deleted_{files}_count", 506, "int"),
        _field("added_rows_count", 512, "long"),
        _field("existing_rows_count", 513, "long"),
        _field("deleted_rows_count", 514, "long"),
        _field("partitions", 507, {"type": "array", "items": _SUMMARY, "element-id": 508}, optional=True),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}
