"""Damaged messages of PostgreSQL: log messages and rows of COPY are decoded, or refused by a named error."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from penstock.formats.change import DecodeOptions
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.log.decode import LogDecoder
from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.relation import Column, LoggedRelation, PgType, Relation
from penstock.ingest.postgres.values.columns import value_column
from penstock.ingest.postgres.values.copy_rows import cells_of, rows_of
from penstock.ingest.postgres.values.windows import Shape
from tests.fuzz.mutations import changed, changed_in_place, held, seeds
from tests.unit.ingest.postgres.pgoutput import (
    ENVELOPE,
    UNCHANGED,
    begin,
    commit,
    delete,
    insert,
    relation,
    truncate,
    update,
)
from tests.unit.ingest.postgres.values.test_binary import numeric, one_dimension

# A column of each type, with its value as the server prints it and in binary.
VALUES: list[tuple[PgType, str, bytes]] = [
    (PgType("int4"), "-5", struct.pack(">i", -5)),
    (PgType("text"), "grün, a text that is longer than twelve bytes", "grün, a text that is longer".encode()),
    (PgType("bool"), "t", b"\1"),
    (PgType("int2"), "7", b"\0\7"),
    (PgType("int8"), "-9223372036854775808", struct.pack(">q", -(2**63))),
    (PgType("float4"), "1.5", struct.pack(">f", 1.5)),
    (PgType("float8"), "1e+300", struct.pack(">d", 1e300)),
    (PgType("numeric"), "123456.789", numeric("123456.789")),
    (PgType("numeric", 30, 5), "-99999999999.00001", numeric("-99999999999.00001")),
    (PgType("date"), "2024-02-29", struct.pack(">i", 8825)),
    (PgType("time"), "01:00:00.000001", struct.pack(">q", 3_600_000_001)),
    (PgType("timestamp"), "2000-01-01 00:00:00.000001", struct.pack(">q", 1)),
    (PgType("timestamptz"), "0044-03-15 00:00:00+00 BC", struct.pack(">q", -(10**16))),
    (PgType("bytea"), "\\xdead00", b"\xde\xad\0"),
    (PgType("uuid"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", bytes(range(16))),
    (PgType("jsonb"), '{"a": 1}', b'\1{"a": 1}'),
    (PgType("bit", 1), "1", struct.pack(">i", 1) + b"\x80"),
    (PgType("varbit", 20), "10101", struct.pack(">i", 5) + b"\xa8"),
    (PgType("", element=PgType("int4")), "{1,NULL,3}", one_dimension(23, [struct.pack(">i", 1), None])),
    (PgType("", element=PgType("text")), '{"a,\\"b",c}', one_dimension(25, [b"ab", b"a longer text than twelve"])),
]
TYPES = {number: kind for number, (kind, _, _) in enumerate(VALUES, 1)}
COLUMNS = [("id" if number == 1 else f"c{number}", number) for number in TYPES]
RELATION = Relation(1, "public", "t", tuple(Column(name, TYPES[oid], oid == 1) for name, oid in COLUMNS), ("id",))
SHAPES = [Shape.of(column.type) for column in RELATION.columns]


def described(logged: LoggedRelation) -> Relation:
    columns = tuple(
        Column(column.name, TYPES.get(column.oid, PgType("text")), column.in_identity) for column in logged.columns
    )
    return Relation(logged.oid, logged.schema, logged.table, columns, ("id",), logged.identity)


def log_messages(*, binary: bool) -> list[bytes]:
    row = [value if binary else text for _, text, value in VALUES]
    changed_row = [row[0], UNCHANGED, None, *row[3:]]
    return [
        begin(100, millis=1_700_000_000_123),
        relation(1, "t", COLUMNS, identity="f"),
        *(insert(1, row) for _ in range(3)),
        update(1, changed_row, old=row),
        truncate(1),
        update(1, row, key=[row[0], *[None] * (len(row) - 1)]),
        delete(1, old=row),
        commit(100),
    ]


def decode(messages: list[bytes]) -> None:
    options = DecodeOptions(before_images="all")
    for found in LogDecoder(described, options, Counter()).decode(MessageBlock.of(Received.of(messages)))[0]:
        found.batch.rows.validate(full=True)


def damaged(messages: list[bytes], chance: random.Random, keep: int) -> list[bytes]:
    """Return the messages with some changed after their first bytes."""
    made = list(messages)
    for _ in range(chance.choice((1, 1, 2))):
        place = chance.randrange(len(made))
        change = changed_in_place if chance.random() < 0.6 else changed
        made[place] = made[place][:keep] + change(made[place][keep:], chance)
    return made


@pytest.mark.parametrize("binary", [False, True])
def test_a_damaged_log_message_is_decoded_or_refused(binary: bool, request: pytest.FixtureRequest) -> None:
    messages, ended = log_messages(binary=binary), Counter[str]()
    decode(messages)
    for chance in seeds(request, 200, 20_000):
        case = damaged(messages, chance, len(ENVELOPE) if chance.random() < 0.9 else 0)
        size = sum(map(len, case))
        ended[held(lambda case=case: decode(case), case, size=size)] += 1  # type: ignore[misc]
    assert ended["well"] > ended.total() // 20
    assert ended["UnexpectedMessage"] > ended.total() // 20


def copied(messages: list[bytes], *, binary: bool) -> None:
    oddities: Counter[str] = Counter()
    rows = rows_of(Received.of(messages))
    for column, cells in zip(RELATION.columns, cells_of(rows, SHAPES), strict=True):
        value_column(cells, RELATION, column, oddities, binary=binary).validate(full=True)


@pytest.mark.parametrize("binary", [False, True])
def test_a_damaged_row_of_copy_is_read_or_refused(binary: bool, request: pytest.FixtureRequest) -> None:
    cells = b"".join(
        struct.pack(">i", len(content)) + content
        for _, text, value in VALUES
        for content in [value if binary else text.encode()]
    )
    row = struct.pack(">h", len(VALUES)) + cells
    messages = [b"PGCOPY\n\xff\r\n\0" + bytes(8), row, row, row, b"\xff\xff"]
    ended: Counter[str] = Counter()
    copied(messages, binary=binary)
    for chance in seeds(request, 200, 20_000):
        case = damaged(messages, chance, 0)
        size = sum(map(len, case))
        ended[held(lambda case=case: copied(case, binary=binary), case, size=size)] += 1  # type: ignore[misc]
    assert ended["well"] > ended.total() // 20
    assert ended["UnexpectedMessage"] > ended.total() // 20


HUGE = struct.pack(">i", 0x7FFFFFFF)


@pytest.mark.parametrize(
    "value",
    [
        struct.pack(">iiIii", 1, 0, 23, 0x7FFFFFFF, 1),  # counts more elements than it has bytes
        struct.pack(">iiIii", 1, 0, 23, -5, 1),
        struct.pack(">iiIii", 1, 0, 23, 1, 1) + HUGE,
        struct.pack(">iiIii", 1, 0, 23, 1, 1) + struct.pack(">i", 2) + b"ab",
        b"\0",
        b"",
    ],
)
def test_a_damaged_array_is_refused(value: bytes) -> None:
    column = Column("a", PgType("", element=PgType("int4")))
    (cells,) = cells_of(Received.of([struct.pack(">hi", 1, len(value)) + value]), [Shape.of(column.type)])
    with pytest.raises(UnexpectedMessage) as refused:
        value_column(cells, RELATION, column, Counter(), binary=True)
    assert {"table", "column"} <= refused.value.facts.keys()
