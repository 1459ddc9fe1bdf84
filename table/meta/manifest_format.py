"""The Avro schemas of manifests, manifest lists and index manifests, and the conversion of their records to objects.

Names, namespaces, order and defaults are the same as in Java Paimon 1.3.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastavro import parse_schema

from penstock.table.meta.container import REQUIRED, RecordShape, layout
from penstock.table.meta.data_file import EMPTY_STATS, ColumnStats, DataFile
from penstock.table.meta.entries import FileKind, IndexEntry, ManifestEntry, ManifestFile, VectorRange
from penstock.table.meta.manifest_decoder import MANIFEST_VERSION, decode_entries

NAMESPACE = "org.apache.paimon.avro.generated"
INDEX_VERSION = 1

_KINDS = tuple(FileKind)
_TEXTS = {"type": "array", "items": "string"}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": list(fields)}


def _field(name: str, type_: object) -> dict[str, Any]:
    return {"name": name, "type": type_}


def _nullable(name: str, type_: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def _stats(path: str) -> dict[str, Any]:
    return _record(
        f"record_{path}",
        _field("_MIN_VALUES", "bytes"),
        _field("_MAX_VALUES", "bytes"),
        _nullable("_NULL_COUNTS", {"type": "array", "items": ["null", "long"]}),
    )


_FILE = _record(
    "record__FILE",
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _field("_MIN_KEY", "bytes"),
    _field("_MAX_KEY", "bytes"),
    _field("_KEY_STATS", _stats("_FILE__KEY_STATS")),
    _field("_VALUE_STATS", _stats("_FILE__VALUE_STATS")),
    _field("_MIN_SEQUENCE_NUMBER", "long"),
    _field("_MAX_SEQUENCE_NUMBER", "long"),
    _field("_SCHEMA_ID", "long"),
    _field("_LEVEL", "int"),
    _field("_EXTRA_FILES", _TEXTS),
    _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    _nullable("_DELETE_ROW_COUNT", "long"),
    _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
    _nullable("_FILE_SOURCE", "int"),
    _nullable("_VALUE_STATS_COLS", _TEXTS),
    _nullable("_EXTERNAL_PATH", "string"),
    _nullable("_FIRST_ROW_ID", "long"),
    _nullable("_WRITE_COLS", _TEXTS),
)
_ENTRY = _record(
    "record",
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_TOTAL_BUCKETS", "int"),
    _field("_FILE", _FILE),
)
_LIST = _record(
    "record",
    _field("_VERSION", "int"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_NUM_ADDED_FILES", "long"),
    _field("_NUM_DELETED_FILES", "long"),
    _field("_PARTITION_STATS", _stats("_PARTITION_STATS")),
    _field("_SCHEMA_ID", "long"),
    _nullable("_MIN_BUCKET", "int"),
    _nullable("_MAX_BUCKET", "int"),
    _nullable("_MIN_LEVEL", "int"),
    _nullable("_MAX_LEVEL", "int"),
)
_VECTOR_RANGE = _record(
    "record__DELETIONS_VECTORS_RANGES",
    _field("f0", "string"),
    _field("f1", "int"),
    _field("f2", "int"),
    _nullable("_CARDINALITY", "long"),
)
_INDEX = _record(
    "record",
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_INDEX_TYPE", "string"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _nullable("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _VECTOR_RANGE]}),
    _nullable("_EXTERNAL_PATH", "string"),
)
# Releases from 2.0 on have this additional field. It is written only for entries that were read with it.
_GLOBAL_INDEX = _record(
    "record__GLOBAL_INDEX",
    _field("_ROW_RANGE_START", "long"),
    _field("_ROW_RANGE_END", "long"),
    _field("_INDEX_FIELD_ID", "int"),
    _nullable("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
    _nullable("_INDEX_META", "bytes"),
    _nullable("_SOURCE_META", "bytes"),
)

ENTRY_SCHEMA = parse_schema(_ENTRY)
LIST_SCHEMA = parse_schema(_LIST)
INDEX_SCHEMA = parse_schema(_INDEX)
GLOBAL_INDEX_SCHEMA = parse_schema(
    _record("record", *_INDEX["fields"], _nullable("_GLOBAL_INDEX", _GLOBAL_INDEX)),
)


def _check_record(version: int, known: int, kind: int = 0) -> None:
    # A negative number would select from the end of _KINDS.
    if kind < 0:
        raise ValueError(f"{kind} is not a kind of entry")
    if version != known:
        raise ValueError(f"version {version} of the records is not {known}, the supported version")


def _entry(version: int, kind: int, partition: bytes, bucket: int, total: int, file: DataFile) -> ManifestEntry:
    _check_record(version, MANIFEST_VERSION, kind)
    return ManifestEntry(_KINDS[kind], partition, bucket, total, file)


def _listed(version: int, *values: Any) -> ManifestFile:
    _check_record(version, MANIFEST_VERSION)
    return ManifestFile(*values)


def _indexed(version: int, kind: int, *values: Any) -> IndexEntry:
    _check_record(version, INDEX_VERSION, kind)
    entry, global_index = IndexEntry(_KINDS[kind], *values[:-1]), values[-1]
    # Java's schema allows null items, which mean nothing.
    ranges = entry.vector_ranges and tuple(range_ for range_ in entry.vector_ranges if range_ is not None)
    unknown = {} if global_index is None else {"_GLOBAL_INDEX": global_index}
    return replace(entry, vector_ranges=ranges, unknown=unknown)


def _required(*names: str) -> dict[str, object]:
    return dict.fromkeys(names, REQUIRED)


def _optional(*names: str) -> dict[str, object]:
    # Releases add fields at the end of a record, so older files lack some of these.
    return dict.fromkeys(names)


_STATS_SHAPE = RecordShape(ColumnStats, {**_required("_MIN_VALUES", "_MAX_VALUES"), "_NULL_COUNTS": ()})
_FILE_SHAPE = RecordShape(
    DataFile,
    {
        **_required("_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS"),
        **_required("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL"),
        "_EXTRA_FILES": (),
        **_optional("_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS"),
        **_optional("_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS"),
    },
    {"_KEY_STATS": _STATS_SHAPE, "_VALUE_STATS": _STATS_SHAPE},
)
ENTRY_SHAPE = RecordShape(
    _entry,
    _required("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE"),
    {"_FILE": _FILE_SHAPE},
    decode_entries,
    layout(_ENTRY),
)
LIST_SHAPE = RecordShape(
    _listed,
    {
        **_required("_VERSION", "_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"),
        "_PARTITION_STATS": EMPTY_STATS,
        "_SCHEMA_ID": 0,
        **_optional("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL"),
    },
    {"_PARTITION_STATS": _STATS_SHAPE},
)
INDEX_SHAPE = RecordShape(
    _indexed,
    {
        **_required("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE"),
        **_required("_ROW_COUNT"),
        **_optional("_DELETIONS_VECTORS_RANGES", "_EXTERNAL_PATH", "_GLOBAL_INDEX"),
    },
    {"_DELETIONS_VECTORS_RANGES": RecordShape(VectorRange, {**_required("f0", "f1", "f2"), "_CARDINALITY": None})},
)
