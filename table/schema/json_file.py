"""Reading and writing of the JSON in metadata files.

Files are formatted as Java's printer formats them, and errors of the reader name the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring

from penstock.errors import TableCorrupt


def pretty_json(value: object) -> bytes:
    """Return the value as JSON in Java's layout.

    Objects span several lines, arrays a single line, and colons have a blank on each side. Characters outside ASCII are
    not escaped.
    """
    return _printed(value, "").encode()


def _printed(value: object, indent: str) -> str:
    match value:
        case dict():
            inner = indent + "  "
            members = [f"\n{inner}{_quoted(str(name))} : {_printed(member, inner)}" for name, member in value.items()]
            return "{" + ",".join(members) + f"\n{indent}}}" if members else "{ }"
        case list() | tuple():
            return "[ " + ", ".join(_printed(item, indent) for item in value) + " ]" if value else "[ ]"
        case str():
            return _quoted(value)
        case Decimal():
            return format(value, "f")
        case bool() | None:
            return _WORDS[value]
        case int():
            return str(value)
    return json.dumps(value)


_WORDS = {True: "true", False: "false", None: "null"}


# An odd number of backslashes: the last one of an even number belongs to an escaped backslash, not to \u.
_LOWER_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][a-f])")


def _quoted(text: str) -> str:
    quoted = encode_basestring(text)
    if "\\u00" not in quoted:
        return quoted
    # Java writes the hexadecimal digits of a control character in upper case.
    return _LOWER_ESCAPE.sub(lambda m: f"{m[1]}\\u00{m[2].upper()}", quoted)


@dataclass(frozen=True, slots=True)
class JsonFile:
    """An object read from the file `where`. A key that is missing, null or of the wrong type raises TableCorrupt."""

    where: str
    values: Mapping[str, object]

    @classmethod
    def parse(cls, data: bytes, where: str) -> JsonFile:
        try:
            # Decimal keeps all nine digits of the seconds for which a tag is kept.
            values = json.loads(data, parse_float=Decimal)
        except (ValueError, RecursionError) as reason:
            raise TableCorrupt(f"the file is not JSON: {reason}", file=where, bytes=len(data)) from reason
        if not isinstance(values, dict):
            raise TableCorrupt("the file is not a JSON object", file=where)
        return cls(where, values)

    def number(self, key: str, default: int | None = None) -> int:
        value = self.optional_number(key)
        if value is not None:
            return value
        if default is None:
            raise self._missing(key)
        return default

    def optional_number(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number", value)
        # Java's long. Python's integers have no limit, and a greater number would fail in numpy or Arrow, without the
        # file's name.
        if not -(2**63) <= value < 2**63:
            raise self._wrong(key, "a number of 64 bits", value)
        return value

    def text(self, key: str) -> str:
        value = self.optional_text(key)
        if value is None:
            raise self._missing(key)
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "text", value)
        return value

    def array(self, key: str) -> list[object]:
        value = self.values.get(key)
        if value is None:
            raise self._missing(key)
        if not isinstance(value, list):
            raise self._wrong(key, "an array", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(item if isinstance(item, str) else self._refuse(key, item) for item in self.array(key))

    def text_map(self, key: str) -> dict[str, str]:
        """Return a map of text to text; an empty map when the key is missing."""
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(key, "an object", value)
        return {name: item if isinstance(item, str) else self._refuse(key, item) for name, item in value.items()}

    def _refuse(self, key: str, value: object) -> str:
        raise self._wrong(key, "text", value)

    def _missing(self, key: str) -> TableCorrupt:
        return TableCorrupt(f"the file has no {key!r}", file=self.where)

    def _wrong(self, key: str, wanted: str, value: object) -> TableCorrupt:
        return TableCorrupt(f"{key!r} should be {wanted}, but is {value!r:.100}", file=self.where)
