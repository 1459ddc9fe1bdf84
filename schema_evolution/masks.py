"""Masks: values made unreadable before they are written. Every mask returns text; null remains null."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.expressions.functions import hashed
from penstock.schema_evolution.expressions.operators import texts

_WRITTEN = re.compile(r"([a-z0-9-]+)(?:\((.*)\))?", re.DOTALL)
_STAR = "*"
_DIGESTS = frozenset({"sha256", "md5"})


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask as written: `sha256`, `keep-last(4)`."""

    name: str
    argument: str | None = None

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}({self.argument})"

    @classmethod
    def of(cls, text: str) -> Mask:
        """Parse a mask; ConfigError when it is unknown or lacks its argument."""
        found = _WRITTEN.fullmatch(text.strip().lower() if "(" not in text else text.strip())
        if found is None or found[1] not in MASKS:
            raise ConfigError(
                f"mask {text!r} does not exist", hint=f"the masks are {', '.join(form for form, _ in FORMS)}"
            )
        mask = cls(found[1], found[2])
        if mask.name in {"keep-first", "keep-last"} and not (mask.argument or "").strip().isdecimal():
            raise ConfigError(f"{text!r} needs a number of characters", hint=f"write it as {mask.name}(4)")
        if mask.name == "replace" and mask.argument is None:
            raise ConfigError(f"{text!r} needs the replacement text", hint="write it as replace(***)")
        return mask

    @property
    def keeps_distinct(self) -> bool:
        """Return whether different values stay different."""
        return self.name in _DIGESTS

    def values(self, column: pa.Array) -> pa.Array:
        """Return the masked column as text."""
        return MASKS[self.name](texts(column), self.argument or "")


def _kept(text: pa.Array, count: int, *, last: bool) -> Any:
    """Replace the rest by one star per character; a text too short to hide anything is hidden completely."""
    length = pc.utf8_length(text)
    hides = pc.greater(length, count)
    stars = pc.binary_repeat(_STAR, pc.if_else(hides, pc.subtract(length, count), length))
    if count == 0:
        return stars
    shown = pc.utf8_slice_codeunits(text, -count) if last else pc.utf8_slice_codeunits(text, 0, count)
    shown = pc.if_else(hides, shown, pc.if_else(pc.is_valid(text), "", pa.scalar(None, pa.string())))
    parts = (stars, shown) if last else (shown, stars)
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _replaced(text: pa.Array, by: str) -> Any:
    return pc.if_else(pc.is_valid(text), pa.scalar(by), pa.scalar(None, pa.string()))


MASKS: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "sha256": lambda text, argument: hashed(text, "sha256"),
    "md5": lambda text, argument: hashed(text, "md5"),
    "keep-first": lambda text, argument: _kept(text, int(argument), last=False),
    "keep-last": lambda text, argument: _kept(text, int(argument), last=True),
    "redact": lambda text, argument: _replaced(text, "***"),
    "replace": _replaced,
    "null": lambda text, argument: pa.nulls(len(text), pa.string()),
}
FORMS = (
    ("sha256", "digest as hexadecimal text: equal values stay equal"),
    ("md5", "the same, shorter"),
    ("keep-first(n)", "keeps the first n characters and replaces the rest with stars"),
    ("keep-last(n)", "keeps the last n characters and replaces the rest with stars"),
    ("redact", "`***`"),
    ("replace(text)", "this text"),
    ("null", "nothing"),
)
