"""The options of --type-mapping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from penstock.errors import ConfigError, did_you_mean


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """The options of --type-mapping that change how source types are mapped and converted."""

    tinyint1_not_bool: bool = False
    to_nullable: bool = False
    to_string: bool = False
    char_to_string: bool = False
    longtext_to_bytes: bool = False
    bigint_unsigned_to_bigint: bool = False
    decimal_no_change: bool = False
    allow_non_string_to_string: bool = False
    allow_lossless: bool = False
    time_to_string: bool = False
    time_micros: bool = False  # of numbers without a declared type
    # the default, unless zero dates are an error; the option exists so that it can be written
    zero_date_to_null: bool = True
    zero_date_error: bool = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> TypeMapping:
        """Build from texts with comma-separated options; hyphens and underscores are equivalent."""
        mapping = cls()
        known = {field.name for field in fields(cls)}
        for option in (part.strip() for text in texts for part in text.split(",")):
            name = option.lower().replace("-", "_")
            if not name:
                continue
            if name not in known:
                shown = sorted(name.replace("_", "-") for name in known)
                raise ConfigError(
                    f"Unsupported type mapping option: {option}",
                    hint=did_you_mean(option.lower(), shown, f"the options are {', '.join(shown)}"),
                )
            mapping = replace(mapping, **{name: True})
        return mapping
