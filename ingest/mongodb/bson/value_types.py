"""The types of BSON values, the sizes of their values, and errors of damaged documents."""

from __future__ import annotations

from penstock.errors import SourceError
from penstock.ingest.database.findings import DamagedData

# The types of BSON values, as numbers.
DOUBLE, STRING, DOCUMENT, ARRAY, BINARY, UNDEFINED, OBJECT_ID, BOOL, DATE, NULL = range(1, 11)
REGEX, DB_POINTER, CODE, SYMBOL, SCOPED_CODE, INT32, TIMESTAMP, INT64, DECIMAL128 = range(11, 20)
MAX_KEY, MIN_KEY = 0x7F, 0xFF

WIDTHS = {
    DOUBLE: 8, UNDEFINED: 0, OBJECT_ID: 12, BOOL: 1, DATE: 8, NULL: 0, INT32: 4, TIMESTAMP: 8, INT64: 8, DECIMAL128: 16,
    MAX_KEY: 0, MIN_KEY: 0,
}  # fmt: skip
# The bytes that the number of 32 bits before a value does not count: the number itself, and for some types more.
PREFIXES = {STRING: 4, CODE: 4, SYMBOL: 4, DOCUMENT: 0, ARRAY: 0, SCOPED_CODE: 0, BINARY: 5, DB_POINTER: 16}
# The fewest bytes of values that contain their length, with their zero bytes.
LEAST = {STRING: 5, CODE: 5, SYMBOL: 5, DOCUMENT: 5, ARRAY: 5, SCOPED_CODE: 14, BINARY: 5, DB_POINTER: 17}
DAMAGE_HINT = "start again; if it happens again, run  db.runCommand({validate: ...})  on the collection"
SHORTEST = 5  # bytes of an empty document


def damaged(position: int) -> SourceError:
    return DamagedData("the server sent a damaged document", position=position, hint=DAMAGE_HINT)


def unknown_type(kind: int, position: int) -> SourceError:
    return DamagedData(
        "the server sent a value of an unknown BSON type",
        type=kind,
        position=position,
        hint="the server is newer than this penstock supports: upgrade penstock, or leave the collection out",
    )
