"""Changes from log messages: kinds, order, old images, unchanged values, new columns, whole columns at once."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from penstock.formats.change import DecodeOptions, ImageRule
from penstock.ingest.database.unordered_deletes import UNORDERED_DELETE
from penstock.ingest.postgres.errors import IdentityTooWeak, UnexpectedMessage
from penstock.ingest.postgres.log.decode import LogDecoder, LoggedRows
from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.relation import Column, LoggedRelation, PgType, Relation
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tests.unit.ingest.postgres.pgoutput import (
    UNCHANGED,
    begin,
    commit,
    delete,
    insert,
    relation,
    truncate,
    update,
)

TYPES = {23: PgType("int4"), 25: PgType("text")}
COLUMNS = [("id", 23), ("v", 25)]
KEY_CHANGES = DecodeOptions(before_images="key-changes")
Image = tuple[int, dict[str, object]]


def described(logged: LoggedRelation) -> Relation | None:
    if logged.table == "other":
        return None
    columns = tuple(Column(column.name, TYPES[column.oid], column.in_identity) for column in logged.columns)
    return Relation(logged.oid, logged.schema, logged.table, columns, ("id",), logged.identity)


def decoder(options: DecodeOptions = KEY_CHANGES) -> LogDecoder:
    return LogDecoder(described, options, Counter())


def decoded(*messages: bytes, options: DecodeOptions = KEY_CHANGES) -> list[LoggedRows]:
    return decoder(options).decode(MessageBlock.of(Received.of(messages)))[0]


def images(found: LoggedRows) -> list[Image]:
    return list(zip(found.batch.kinds.tolist(), found.batch.rows.to_pylist(), strict=True))


def test_rows_have_kinds_numbers_and_the_time_of_their_transaction() -> None:
    (found,) = decoded(
        begin(100, millis=1_700_000_000_123),
        relation(1, "t", COLUMNS),
        insert(1, ["1", "a"]),
        update(1, ["1", "b"]),
        commit(100),
        begin(200, millis=1_700_000_001_000),
        update(1, ["2", "b"], key=["1", None]),
        delete(1, key=["2", None]),
        commit(200),
    )
    assert images(found) == [
        (INSERT, {"id": 1, "v": "a"}),
        (UPDATE_AFTER, {"id": 1, "v": "b"}),
        (DELETE, {"id": 1, "v": None}),
        (INSERT, {"id": 2, "v": "b"}),
        (DELETE, {"id": 2, "v": None}),
    ]
    assert found.batch.positions.tolist() == [0, 1, 2, 2, 3]
    assert found.batch.subs.tolist() == [1, 1, 0, 1, 0]
    assert found.batch.event_times.tolist() == [1_700_000_000_123] * 2 + [1_700_000_001_000] * 3
    assert (found.batch.schema.database, found.batch.schema.table) == ("public", "t")


def test_binary_values_are_decoded() -> None:
    (found,) = decoded(begin(1), relation(1, "t", COLUMNS), insert(1, [struct.pack(">i", -5), "ä".encode()]))
    assert images(found) == [(INSERT, {"id": -5, "v": "ä"})]


def test_full_identity_yields_the_images_that_the_target_needs() -> None:
    messages = (
        begin(1),
        relation(1, "t", COLUMNS, keys=("id", "v"), identity="f"),
        update(1, ["1", "b"], old=["1", "a"]),
        update(1, ["2", "b"], old=["1", "b"]),
        delete(1, old=["2", "b"]),
    )
    moved = [(DELETE, {"id": 1, "v": "b"}), (INSERT, {"id": 2, "v": "b"}), (DELETE, {"id": 2, "v": "b"})]
    watching = replace(KEY_CHANGES, watch_columns=frozenset({"Id"}))
    (found,) = decoded(*messages, options=watching)
    assert images(found) == [(UPDATE_AFTER, {"id": 1, "v": "b"}), *moved]
    (found,) = decoded(*messages, options=replace(watching, before_images="all"))
    assert images(found) == [
        (UPDATE_BEFORE, {"id": 1, "v": "a"}),
        (UPDATE_AFTER, {"id": 1, "v": "b"}),
        *moved,
    ]


def test_unchanged_values_come_from_the_old_image_or_are_marked() -> None:
    (found,) = decoded(
        begin(1),
        relation(1, "t", COLUMNS, identity="f"),
        update(1, ["1", UNCHANGED], old=["1", "long"]),
    )
    assert images(found) == [(UPDATE_AFTER, {"id": 1, "v": "long"})]
    assert found.unchanged == {}
    (found,) = decoded(begin(1), relation(1, "t", COLUMNS), insert(1, ["1", "x"]), update(1, ["1", UNCHANGED]))
    assert images(found)[1] == (UPDATE_AFTER, {"id": 1, "v": None})
    assert {name: mask.tolist() for name, mask in found.unchanged.items()} == {"v": [False, True]}


def test_columns_change_between_rows_of_one_transaction() -> None:
    first, second = decoded(
        begin(1),
        relation(1, "t", COLUMNS),
        insert(1, ["1", "a"]),
        relation(1, "t", [*COLUMNS, ("more", 23)]),
        insert(1, ["2", "b", "3"]),
    )
    assert images(first) == [(INSERT, {"id": 1, "v": "a"})]
    assert images(second) == [(INSERT, {"id": 2, "v": "b", "more": 3})]


def test_a_repeated_relation_message_does_not_divide_the_batch() -> None:
    found = decoded(
        begin(1), relation(1, "t", COLUMNS), insert(1, ["1", "a"]), relation(1, "t", COLUMNS), insert(1, ["2", "b"])
    )
    assert [len(item.batch) for item in found] == [2]


def test_rows_are_numbered_across_blocks_and_tables() -> None:
    both = decoder()
    head = [begin(1, millis=5), relation(1, "t", COLUMNS), relation(2, "other", COLUMNS), insert(2, ["1", "a"])]
    assert both.decode(MessageBlock.of(Received.of(head)))[0] == []
    (found,) = both.decode(MessageBlock.of(Received.of([insert(1, ["1", "a"])])))[0]
    assert (found.batch.positions.tolist(), found.batch.event_times.tolist(), both.rows) == ([1], [5], 2)


def test_truncated_tables_are_reported() -> None:
    _, truncations = decoder().decode(
        MessageBlock.of(
            Received.of([begin(1), relation(1, "t", COLUMNS), relation(2, "other", COLUMNS), truncate(1, 2)])
        )
    )
    assert [(truncation.database, truncation.table) for truncation in truncations] == [("public", "t")]


def test_old_rows_that_are_needed_and_missing_are_an_error() -> None:
    head = (begin(1), relation(1, "t", COLUMNS))
    with pytest.raises(IdentityTooWeak, match="lack the old row") as caught:
        decoded(*head, update(1, ["1", "b"]), options=DecodeOptions(before_images="all"))
    assert 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL' in str(caught.value)
    with pytest.raises(IdentityTooWeak, match="lack the old row"):
        # In the case of a catalog that folds names.
        decoded(*head, update(1, ["1", "b"]), options=replace(KEY_CHANGES, watch_columns=frozenset({"V"})))
    with pytest.raises(IdentityTooWeak, match="lack columns of the primary key"):
        decoded(begin(1), relation(1, "t", COLUMNS, keys=("v",), identity="i"), delete(1, key=[None, "a"]))
    inserts = decoded(*head, insert(1, ["1", "b"]), options=DecodeOptions(before_images="all"))
    assert len(inserts) == 1


def test_damaged_messages_are_errors() -> None:
    head = (begin(1), relation(1, "t", COLUMNS))
    with pytest.raises(UnexpectedMessage, match="number of columns"):
        decoded(*head, insert(1, ["1"]))
    with pytest.raises(UnexpectedMessage, match="not described"):
        decoded(begin(1), insert(9, ["1", "a"]))
    with pytest.raises(UnexpectedMessage, match="unknown kind"):
        decoded(*head, bytes(25) + b"Z")
    with pytest.raises(UnexpectedMessage, match="unknown format"):
        decoded(*head, insert(1, ["1", b"binary beside text"]))


@pytest.mark.parametrize(
    ("whole", "damage", "message"),
    [
        (b"t\0\0\0\1a", b"t\0\0\7\0a", "ends before its last column"),
        (b"t\0\0\0\1a", b"t\xff\xff\xff\xfea", "negative length"),
        (b"t\0\0\0\1a", b"t\0\0\0\1\xff", "not of its column's type"),
        (b"t\0\0\0\0011", b"t\0\0\0\1x", "not of its column's type"),
        (b"N\0\2", b"O\0\2", "ends before its last column"),
    ],
)
def test_damaged_rows_name_their_table(whole: bytes, damage: bytes, message: str) -> None:
    raw = insert(1, ["1", "a"])
    assert raw.count(whole) == 1
    with pytest.raises(UnexpectedMessage, match=message) as caught:
        decoded(begin(1), relation(1, "t", COLUMNS), raw.replace(whole, damage))
    assert caught.value.facts["table"] == "public.t"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (begin(1)[:-3], "incomplete message"),
        (bytes(25), "without a kind"),
        (relation(1, "t", COLUMNS)[:-3], "description of a table"),
        (bytes(25) + b"T" + b"\xff" * 4 + b"\0", "list of emptied tables"),
    ],
)
def test_incomplete_messages_are_errors(damage: bytes, message: str) -> None:
    with pytest.raises(UnexpectedMessage, match=message):
        decoded(damage, begin(1))


def test_a_delete_with_a_new_row_is_an_error() -> None:
    raw = delete(1, key=["1", None]).replace(b"K\0\2", b"N\0\2")
    with pytest.raises(UnexpectedMessage, match="other images than its kind"):
        decoded(begin(1), relation(1, "t", COLUMNS), raw)


def test_deletes_without_the_sequence_field_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    rule = ImageRule("key-changes", sequence=frozenset({"V"}))
    ordered = replace(KEY_CHANGES, tables={("public", "t"): rule})
    oddities: Counter[str] = Counter()
    messages = begin(1), relation(1, "t", COLUMNS), update(1, ["1", "b"]), delete(1, key=["1", None])
    LogDecoder(described, ordered, oddities).decode(MessageBlock.of(Received.of(messages)))
    assert +oddities == {UNORDERED_DELETE: 1}
    assert "event=deletes_without_effect table=public.t deletes=1 missing=v" in caplog.text
    full = begin(1), relation(1, "t", COLUMNS, keys=("id", "v"), identity="f"), delete(1, old=["1", "b"])
    LogDecoder(described, ordered, oddities).decode(MessageBlock.of(Received.of(full)))
    assert +oddities == {UNORDERED_DELETE: 1}


def any_message(random: Random) -> bytes:
    """Return the message of a row of a table with FULL identity, or with the columns of a key as old image."""

    def row() -> list[object]:
        return [str(random.randrange(4)), random.choice([None, "", "a", "ab", "b" * 14]), random.choice([None, "7"])]

    new: list[object] = [*row()[:1], random.choice([UNCHANGED, *row()[1:2]]), *row()[2:]]
    way = random.randrange(6)
    if way == 0:
        return insert(1, row())
    if way == 1:
        return delete(1, old=row())
    if way == 2:
        return update(1, row())
    if way == 3:
        return update(1, row(), key=[row()[0], None, None])
    return update(1, new, old=[*new[:1], *row()[1:]] if random.random() < 0.7 else row())


def lines(found: list[LoggedRows]) -> list[tuple[object, ...]]:
    return [
        (position, sub, kind, row, {name: bool(mask[place]) for name, mask in one.unchanged.items() if mask[place]})
        for one in found
        for place, (position, sub, (kind, row)) in enumerate(
            zip(one.batch.positions.tolist(), one.batch.subs.tolist(), images(one), strict=True)
        )
    ]


@pytest.mark.parametrize("seed", range(40))
def test_rows_of_many_messages_are_those_of_each_message_alone(seed: int) -> None:
    random = Random(seed)
    description = relation(1, "t", [*COLUMNS, ("n", 23)], keys=("id", "v", "n"), identity="f")
    messages = [any_message(random) for _ in range(random.choice((1, 5, 60)))]
    for images_ in ("key-changes", "all"):
        watched = replace(KEY_CHANGES, before_images=images_, watch_columns=frozenset({"id", "n"}))
        whole, single = decoder(watched), decoder(watched)
        rows = lines(whole.decode(MessageBlock.of(Received.of([begin(1), description, *messages])))[0])
        blocks = [[begin(1), description], *([message] for message in messages)]
        assert rows == [
            line for block in blocks for line in lines(single.decode(MessageBlock.of(Received.of(block)))[0])
        ]
        if images_ == "key-changes":
            needed = rows
    # Old images of updates that move nothing are all that is left out.
    assert needed == [line for line in rows if line[2] != UPDATE_BEFORE]


def test_a_binary_value_that_only_the_old_image_has_is_decoded() -> None:
    """The new image has no value from which its format could be seen."""
    (found,) = decoded(
        begin(1),
        relation(1, "t", COLUMNS, identity="f"),
        update(1, [UNCHANGED, None], old=[struct.pack(">i", 7), None]),
    )
    assert images(found) == [(UPDATE_AFTER, {"id": 7, "v": None})]
