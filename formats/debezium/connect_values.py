"""The values of Kafka Connect's types as Arrow columns.

| declared | column |
|---|---|
| int8 .. int64 | int64; a BIGINT UNSIGNED as text, negative ones corrected |
| float, double, string, ISO texts | text, digits as sent |
| boolean | bool |
| bytes | binary |
| Date | date32 |
| Time, MicroTime, NanoTime | duration of the unit, since a TIME may be negative or longer than a day |
| Timestamp, MicroTimestamp, NanoTimestamp | timestamp of the unit, no zone |
| ZonedTimestamp | timestamp[us, UTC]; text of the same instants if any has more than 6 digits of a second |
| Decimal, VariableScaleDecimal | text of plain digits |
| Bits | binary, big-endian |
| geometry | GeoJSON text |
| vectors | list of float or double |
| other structs, arrays, maps | compact JSON text |
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.debezium.connect import ZONED_TIMESTAMP, ConnectType
from penstock.formats.debezium.connect_times import iso_texts, zoned_timestamps
from penstock.formats.faults import Faults
from penstock.formats.geometry import geojson
from penstock.formats.json_text import compact_json, plain_digits
from penstock.formats.row_builder import Read, each, texts

_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium."
_UNITS = {
    f"{_DEBEZIUM}time.Date": pa.date32(),
    f"{_DEBEZIUM}time.Time": pa.duration("ms"),
    f"{_DEBEZIUM}time.MicroTime": pa.duration("us"),
    f"{_DEBEZIUM}time.NanoTime": pa.duration("ns"),
    f"{_DEBEZIUM}time.Timestamp": pa.timestamp("ms"),
    f"{_DEBEZIUM}time.MicroTimestamp": pa.timestamp("us"),
    f"{_DEBEZIUM}time.NanoTimestamp": pa.timestamp("ns"),
    f"{_CONNECT}Date": pa.date32(),
    f"{_CONNECT}Time": pa.duration("ms"),
    f"{_CONNECT}Timestamp": pa.timestamp("ms"),
}
_ISO = {f"{_DEBEZIUM}time.IsoDate", f"{_DEBEZIUM}time.IsoTime", f"{_DEBEZIUM}time.IsoTimestamp"}
_VECTORS = {f"{_DEBEZIUM}data.FloatVector": pa.float32(), f"{_DEBEZIUM}data.DoubleVector": pa.float64()}
_INTEGERS = {"int8", "int16", "int32", "int64"}
_NESTED = {"struct", "array", "map"}
# Decimals of a larger scale than the first are converted value by value; a larger scale than the second is an error.
COLUMN_SCALE, _MAX_SCALE = 100, 10_000
_NUMERIC = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_WIDEST = 83_886_080 // 8  # bytes of PostgreSQL's widest BIT


def reader(column: str, declared: str | None) -> Read:
    """Return the function that reads the values of a column of this declared type.

    Without a declaration they are text.
    """
    if declared is None:
        return texts
    kind = ConnectType.parse(declared)
    problem = f"the value of column {column} does not fit {declared}"
    name = kind.name or ""
    if name in _UNITS:
        return partial(_units, kind=_UNITS[name], problem=problem)
    if name == f"{_CONNECT}Decimal":
        return partial(decimal_texts, scale=kind.number("scale") or 0, problem=problem)
    if name == f"{_DEBEZIUM}data.VariableScaleDecimal":
        return each(_variable_scale, pa.string(), problem)
    if name == f"{_DEBEZIUM}data.Bits":
        return each(partial(_bits, width=((kind.number("length") or 1) + 7) // 8), pa.binary(), problem)
    if name == ZONED_TIMESTAMP:
        return partial(zoned_timestamps, problem=problem)
    if name in _ISO:
        return partial(iso_texts, problem=problem)
    if name.startswith(f"{_DEBEZIUM}data.geometry."):
        return each(_geometry, pa.string(), problem)
    if name in _VECTORS:
        return each(lambda vector: [float(number) for number in vector], pa.list_(_VECTORS[name]), problem)
    return _carried(kind, problem)


def integer_type(declared: str) -> pa.DataType | None:
    """Return the type of a column that `reader` makes of integers without a change of value, None for all others."""
    kind = ConnectType.parse(declared)
    if kind.name:
        return _UNITS.get(kind.name)
    plain = kind.carrier in _INTEGERS and not _is_unsigned_bigint(kind.source_type)
    return pa.int64() if plain else None


def _carried(kind: ConnectType, problem: str) -> Read:
    """Return the function for types without a semantic name: their values are values of the carrier type."""
    if kind.carrier in _INTEGERS:
        unsigned = _is_unsigned_bigint(kind.source_type)
        return each(_unsigned_text, pa.string(), problem) if unsigned else partial(integers, problem=problem)
    if kind.carrier == "boolean":
        return each(_boolean, pa.bool_(), problem)
    if kind.carrier == "bytes":
        return each(base64_bytes, pa.binary(), problem)
    if kind.carrier in _NESTED:
        return each(_nested_text, pa.string(), problem)
    return texts


def integers(values: Sequence[Any], faults: Faults, problem: str) -> pa.Array:
    """Return values as int64, value by value if any of them is not an integer."""
    try:
        return pa.array(values, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return each(_integer, pa.int64(), problem)(values, faults)


def _integer(value: Any) -> int:
    number = int(value)
    if isinstance(value, bool) or not -(1 << 63) <= number < 1 << 63:
        raise ValueError("not a 64-bit integer")
    return number


def _units(values: Sequence[Any], faults: Faults, kind: pa.DataType, problem: str) -> pa.Array:
    numbers = integers(values, faults, problem)
    if kind != pa.date32():
        return numbers.cast(kind)
    try:
        return numbers.cast(pa.int32()).cast(kind)
    except pa.ArrowInvalid:
        # A batch with a day out of range is converted value by value, to name the row at fault.
        return each(_day, pa.int32(), problem)(numbers.to_pylist(), faults).cast(kind)


def _day(number: int) -> int:
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError("not a 32-bit number of days")
    return number


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _is_unsigned_bigint(source_type: str | None) -> bool:
    return source_type is not None and (
        source_type.upper().startswith("BIGINT UNSIGNED") or source_type.upper() == "SERIAL"
    )


def _unsigned_text(value: Any) -> str:
    number = int(value)
    # Debezium sends BIGINT UNSIGNED as a signed 64-bit number unless it is configured otherwise.
    return str(number + (1 << 64) if number < 0 else number)


def base64_bytes(value: Any) -> bytes:
    """Return bytes from base64; Avro values are bytes already."""
    return value if isinstance(value, bytes) else a2b_base64(value, strict_mode=True)


def _nested_text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _bits(value: Any, width: int) -> bytes:
    """Return BIT values as big-endian bytes; Debezium sends them little-endian and without leading zeros."""
    if not 0 < width <= _WIDEST:
        raise ValueError("not a valid number of bits")
    return base64_bytes(value)[::-1].rjust(width, b"\0")


def _geometry(value: Mapping[str, Any]) -> str:
    return geojson(base64_bytes(value["wkb"]), value.get("srid") or 0)


def decimal_texts(values: Sequence[Any], faults: Faults, scale: int, problem: str) -> pa.Array:
    """Convert decimals to text: as whole columns if all are base64 and fit 64 bits, else value by value.

    The slow path also accepts numbers and digits.
    """
    if not 0 <= scale <= COLUMN_SCALE:
        return each(partial(_decimal_text, scale=scale), pa.string(), problem)(values, faults)
    try:
        unscaled = [None if value is None else _integer_of(_unscaled(value)) for value in values]
        return scaled_texts(pa.array(unscaled, pa.int64()), scale)
    except (ValueError, TypeError, OverflowError, pa.ArrowInvalid):
        return each(partial(_decimal_text, scale=scale), pa.string(), problem)(values, faults)


def _unscaled(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    # The digits of a JSON number, which is a `Number`, could be base64 too.
    if type(value) is not str or len(value) % 4:
        raise ValueError("no base64")
    return a2b_base64(value, strict_mode=True)


def _integer_of(data: bytes) -> int:
    if not data:
        raise ValueError("a number has at least one byte")
    return int.from_bytes(data, "big", signed=True)


def scaled_texts(unscaled: pa.Array, scale: int) -> pa.Array:
    """Return integers as text with the decimal point `scale` digits from the right."""
    digits = unscaled.cast(pa.string())
    if scale == 0:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    # At least one digit before the point.
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -scale)
    fraction = pc.utf8_slice_codeunits(padded, -scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, whole, ""), fraction, ".")


def scaled_text(unscaled: int, scale: int) -> str:
    """Return an integer as text with the decimal point `scale` digits from the right."""
    if abs(scale) > _MAX_SCALE:
        raise ValueError("not a valid scale")
    if scale <= 0:
        return str(unscaled) + "0" * (-scale if unscaled else 0)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _decimal_text(value: Any, scale: int) -> str:
    """Return the text of a JSON number, of base64 of the unscaled value, or of digits that cannot be base64.

    Converters send all three.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # A JSON number is a `Number`, which is a subclass of str: only a plain str can be base64.
    if isinstance(value, bytes) or (type(value) is str and _BASE64.fullmatch(value)):
        return scaled_text(_integer_of(base64_bytes(value)), scale)
    if isinstance(value, str) and _NUMERIC.fullmatch(value):
        return plain_digits(value) if "e" in value.lower() else str(value)
    raise ValueError("not a decimal")


def _variable_scale(value: Mapping[str, Any]) -> str:
    return scaled_text(_integer_of(base64_bytes(value["value"])), int(value["scale"]))
