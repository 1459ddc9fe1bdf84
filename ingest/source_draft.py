"""The draft of the section `source` that `penstock init` writes after it has examined the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigError, PenstockError
from penstock.formats import FORMATS, decode
from penstock.formats.change import DecodeOptions, Messages

EXAMINED = 50  # messages from which a format is recognised
DEFAULT_FORMAT = "canal-json"


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """`offline`: the source is not examined. `value_format`: the format of its messages, None to recognise it."""

    offline: bool = False
    value_format: str | None = None


@dataclass(frozen=True, slots=True)
class SourceDraft:
    """A section as text with comments.

    `found` describes the content of the source in a sentence, `name` is a name for the pipeline, and `environment` are
    the variables that the section refers to.
    """

    section: str
    found: str
    name: str
    environment: tuple[str, ...] = ()


def recognised_format(messages: Callable[[], list[bytes]], options: DraftOptions, unexamined: str) -> tuple[str, str]:
    """Return the format of the source's first messages, and a sentence about them."""
    if options.offline:
        return options.value_format or DEFAULT_FORMAT, unexamined
    values = messages()[:EXAMINED]
    if options.value_format is not None:
        return options.value_format, f"Examined {len(values)} messages."
    if not values:
        return DEFAULT_FORMAT, "There are no messages yet: set value.format to their format."
    # Every JSON object is plain JSON too, so that format is tried last.
    for name in sorted(FORMATS.names(), key=lambda name: name == "json"):
        if _fits(name, values):
            kind = "plain JSON objects" if name == "json" else name
            seen = "message is" if len(values) == 1 else f"{len(values)} messages are"
            return name, f"The first {seen} {kind}."
    raise ConfigError(
        "the messages are in no supported format", hint=f"set --format to one of {', '.join(FORMATS.names())}"
    )


def _fits(name: str, values: list[bytes]) -> bool:
    """Return whether most messages yield rows and no message is bad."""
    try:
        decoded = decode(name, Messages(values, np.arange(len(values), dtype=np.int64)), DecodeOptions())
    except PenstockError:
        return False
    # Some messages have no rows, such as messages about DDL or heartbeats.
    return not decoded.bad and sum(len(batch) for batch in decoded.batches) * 2 >= len(values)
