"""MongoDB's extended JSON, relaxed or canonical, as the plain values that a STRING column can contain.

A value becomes text, an integer, `Number`, a boolean, None, or a list or dict of these; `json_text.text_of` returns the
column's text of it. NaN and the infinities become text, since JSON has no numbers for them.
"""

from __future__ import annotations

import math
import uuid
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.formats.json_text import MAX_EXPONENT, Number, java_double

_UUID_SUBTYPES = {"3", "03", "4", "04"}
_MARKS = {"$minKey": "BsonMinKey", "$maxKey": "BsonMaxKey"}


def plain_value(value: Any) -> Any:
    """Return the plain value of extended JSON; ValueError for a `$` form with invalid content."""
    if isinstance(value, Number):
        return double(value)
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value and next(iter(value)).startswith("$"):
        try:
            return _special(value)
        except (KeyError, TypeError, AttributeError, InvalidOperation) as error:
            raise ValueError(f"{next(iter(value))} contains {str(value)[:80]}") from error
    return {name: plain_value(one) for name, one in value.items()}


def _special(value: Mapping[str, Any]) -> Any:
    match value:
        case {"$oid": text} | {"$symbol": text} | {"$uuid": text}:
            return str(text)
        case {"$numberInt": digits} | {"$numberLong": digits}:
            return int(digits)
        case {"$numberDouble": digits}:
            return double(digits)
        case {"$numberDecimal": digits}:
            return decimal(digits)
        case {"$date": moment}:
            return milliseconds(moment)
        case {"$timestamp": {"t": seconds}}:
            return int(seconds)
        case {"$binary": {"base64": data, "subType": subtype}} | {"$binary": data, "$type": subtype}:
            return str(uuid.UUID(bytes=b64decode(data))) if subtype in _UUID_SUBTYPES else str(data)
        case {"$regularExpression": {"pattern": pattern, "options": options}}:
            return regex(pattern, options)
        case {"$regex": pattern, "$options": options}:
            return regex(pattern, options)
        case {"$code": code, "$scope": scope}:
            return {"$code": code, "$scope": plain_value(scope)}
        case {"$code": code}:
            return str(code)
        case {"$minKey": _} | {"$maxKey": _}:
            return _MARKS[next(iter(value))]
        case {"$undefined": _}:
            return None
    return {name: plain_value(one) for name, one in value.items()}


def double(digits: str) -> Number | str:
    """Return a double as Java prints it: 3.14, 0.0, 1.0E10, NaN, Infinity."""
    number = float(digits)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return Number(java_double(number))


def decimal(digits: str) -> Number | str:
    number = Decimal(digits)
    if number.is_nan():
        return "NaN"
    if number.is_infinite():
        return "Infinity" if number > 0 else "-Infinity"
    if abs(number.adjusted()) > MAX_EXPONENT:
        return Number(digits)
    return Number(format(number, "f"))


def milliseconds(moment: Any) -> int:
    if isinstance(moment, str):
        parsed = datetime.fromisoformat(moment)
        since = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    return int(moment["$numberLong"] if isinstance(moment, dict) else moment)


def regex(pattern: str, options: str) -> str:
    escaped = pattern.replace("/", "\\/") or "(?:)"
    return f"/{escaped}/{options}"
