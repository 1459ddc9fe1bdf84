"""The envelope of a JSON message: parsing with msgspec, and the errors if that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from penstock.errors import DecodeError
from penstock.formats.change import MISSING_FIELD, NOT_JSON, UNKNOWN_OPERATION, DecodeResult, Messages
from penstock.formats.json_text import repair_surrogates
from penstock.formats.row_builder import bad_record

Envelope = TypeVar("Envelope")

NULL = msgspec.Raw(b"null")
TOMBSTONE = "tombstone"
# The exceptions of msgspec for bytes that cannot be parsed as the requested type.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_envelopes(
    messages: Messages, read: Callable[[bytes], Envelope], decoded: DecodeResult
) -> list[Envelope | None]:
    """Return one envelope per message; None for tombstones (counted) and for unreadable messages (reported as bad)."""
    try:
        # Nearly always all messages can be read, and one `try` around all is cheaper than one per message. A
        # tombstone is None, which msgspec rejects with a TypeError.
        return [read(value) for value in messages.values]  # type: ignore[arg-type]
    except (*UNREADABLE, TypeError):
        return [_read_one(messages, number, read, decoded) for number in range(len(messages))]


def handle_envelopes(
    messages: Messages,
    read: Callable[[bytes], Envelope],
    decoded: DecodeResult,
    handle: Callable[[Envelope, int], None],
) -> None:
    """Call `handle` with every envelope and the number of its message.

    If `handle` raises DecodeError, that message is reported as bad and decoding continues with the next.
    """
    for number, envelope in enumerate(read_envelopes(messages, read, decoded)):
        if envelope is None:
            continue
        try:
            handle(envelope, number)
        except DecodeError as error:
            decoded.bad.append(bad_record(messages, number, error))


def _read_one(
    messages: Messages, number: int, read: Callable[[bytes], Envelope], decoded: DecodeResult
) -> Envelope | None:
    value = messages.values[number]
    if value is None:
        decoded.skipped[TOMBSTONE] += 1
        return None
    try:
        return read_json(value, read, decoded)
    except DecodeError as error:
        decoded.bad.append(bad_record(messages, number, error))
        return None


def read_json(value: bytes, read: Callable[[bytes], Envelope], decoded: DecodeResult) -> Envelope:
    """Apply `read`, with unpaired surrogates repaired and every failure raised as DecodeError."""
    try:
        return read(value)
    except RecursionError as error:
        raise DecodeError("the value is JSON nested too deeply", reason=NOT_JSON) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        repaired, count = repair_surrogates(value)
        if not count:
            raise DecodeError(f"the value is not a JSON record of this format: {error}", reason=NOT_JSON) from error
    # The repaired value has no unpaired surrogates, so this calls itself once at most.
    envelope = read_json(repaired, read, decoded)
    decoded.repaired += count
    return envelope


def missing(format_name: str, field: str, condition: str | None = None, value: str | None = None) -> DecodeError:
    """Return the error for a missing field, optionally with the condition that requires it."""
    when = "" if condition is None else f" when '{condition}' is '{value}'"
    return DecodeError(f"Invalid {format_name} format: missing '{field}' field{when}.", reason=MISSING_FIELD)


def unknown_operation(operation: object) -> DecodeError:
    """Return the error for an operation that the format does not define."""
    return DecodeError(f"Unknown record operation: {operation}", reason=UNKNOWN_OPERATION)
