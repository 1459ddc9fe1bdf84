"""Parses `key=value` arguments the way Paimon's actions do."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import ConfigError


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Split each text at its first `=` and trim both sides; the last value of a repeated key wins."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"Invalid key-value string '{text}'. Please use format 'key=value'")
        found[key.strip()] = value.strip()
    return found


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """Return all comma-separated parts, in order."""
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
