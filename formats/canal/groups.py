"""Messages of one table with the same declaration, which are decoded together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from penstock.formats.canal.message import (
    ABSENT,
    NAME,
    OPERATIONS,
    WITHOUT_ROWS,
    CanalEnvelope,
    read_envelope,
    read_names,
    read_types,
)
from penstock.formats.canal.values import Convert, converter
from penstock.formats.change import (
    DecodeResult,
    Messages,
    SourceField,
    Truncation,
)
from penstock.formats.json_envelope import NULL, missing, read_envelopes, unknown_operation
from penstock.formats.row_builder import bad_record, check_members

# The number of messages that are parsed and then grouped together, while they are still in the CPU cache.
BLOCK = 200


class CanalGroup:
    """The messages of one source schema, with their numbers."""

    def __init__(self, first: CanalEnvelope) -> None:
        self.database, self.table = first.database, first.table
        self.types, self.keys = first.mysql_type, first.pk_names
        self.numbers: list[int] = []
        self.members: list[CanalEnvelope] = []

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def states_no_key(self) -> bool:
        """True if the messages say that the table has no primary key."""
        return self.keys != ABSENT and not read_names(self.keys)


def grouped(messages: Messages, decoded: DecodeResult) -> list[CanalGroup]:
    """Return the messages with rows by their declaration; the others are counted or reported in `decoded`."""
    groups: dict[tuple[object, ...], CanalGroup] = {}
    latest: dict[str | None, CanalGroup] = {}
    for number, envelope in _envelopes(messages, decoded):
        operation = envelope.type
        # Decided before the names are looked at: DDL and other messages without rows may have no names.
        if operation not in OPERATIONS or envelope.is_ddl or envelope.data == NULL:
            _set_aside(envelope, number, messages, decoded)
            continue
        if operation == "UPDATE" and envelope.old == NULL:
            decoded.bad.append(bad_record(messages, number, missing(NAME, "old", "type", "UPDATE")))
            continue
        # Comparing the bytes is far cheaper than hashing them, and the declaration of a table seldom changes.
        group = latest.get(envelope.table)
        if (
            group is None
            or group.types != envelope.mysql_type
            or group.keys != envelope.pk_names
            or group.database != envelope.database
        ):
            identity = (envelope.database, envelope.table, bytes(envelope.mysql_type), bytes(envelope.pk_names))
            group = latest[envelope.table] = groups.setdefault(identity, CanalGroup(envelope))
        group.numbers.append(number)
        group.members.append(envelope)
    return list(groups.values())


def _envelopes(messages: Messages, decoded: DecodeResult) -> Iterator[tuple[int, CanalEnvelope]]:
    """Yield the readable messages with their numbers."""
    for start in range(0, len(messages), BLOCK):
        block = messages.slice(start, start + BLOCK)
        for number, envelope in enumerate(read_envelopes(block, read_envelope, decoded), start):
            if envelope is not None:
                yield number, envelope


def _set_aside(envelope: CanalEnvelope, number: int, messages: Messages, decoded: DecodeResult) -> None:
    """Handle a message without rows: count it by operation, or report it as bad if the operation is unknown."""
    operation = envelope.type
    if envelope.is_ddl or operation in WITHOUT_ROWS:
        decoded.skipped[operation or "DDL"] += 1
        if operation == "TRUNCATE":
            place = int(messages.offsets[number])
            decoded.truncations.append(Truncation(place, envelope.database, envelope.table))
        return
    if operation is None:
        error = missing(NAME, "type")
    elif operation not in OPERATIONS:
        error = unknown_operation(operation)
    else:
        error = missing(NAME, "data")
    decoded.bad.append(bad_record(messages, number, error))


@lru_cache(maxsize=8192)
def declared_columns(types: bytes, keys: bytes) -> tuple[tuple[SourceField, ...] | None, tuple[str, ...]]:
    """Return the declared fields (None if the message declares none) and the primary keys."""
    declared, names = read_types(types), read_names(keys or NULL)
    if declared is None:
        return None, tuple(names or ())
    check_members([declared])
    return tuple(SourceField(name, text) for name, text in declared.items()), tuple(names or ())


@lru_cache(maxsize=8192)
def converters(fields: tuple[SourceField, ...]) -> tuple[Convert | None, ...]:
    return tuple(None if field.type is None else converter(field.name, field.type) for field in fields)
