"""The letters of a dead-letter table: how they are identified, and how they are settled after a replay."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.handle import Table

Content: TypeAlias = tuple[str, bytes | None]

_CONTENT = ("source_position", "raw_value")

# The place of rows that were read with their table, by databases: `shop.orders/3`. Partitions of Kafka topics may have
# such names too; in which order topics are replayed does not matter.
_CHUNK = re.compile(r".+\..+/\d+")


@dataclass(frozen=True, slots=True)
class Letter:
    """A row of the dead-letter table. (place, id) is the source position of its message; the id may be a number.

    Letters of different content may have one position, as in a topic that was created again. `copy` numbers these.
    """

    place: str
    id: str
    topic: str | None
    partition: int | None
    value: bytes | None
    key: bytes | None
    millis: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    attempt: int
    copy: int = 0

    @property
    def position(self) -> str:
        return f"{self.place}@{self.id}"

    @property
    def part(self) -> str:
        """The place, with the number of the copy: letters of one part have different ids."""
        return f"{self.place} ({self.copy + 1})" if self.copy else self.place

    @property
    def name(self) -> str:
        """The position, made unique."""
        return f"{self.part}@{self.id}"

    @property
    def content(self) -> Content:
        """The position and the message: rows that agree in both are one letter, which a crash may leave twice."""
        return self.position, self.value

    @property
    def key_of_content(self) -> str:
        """The position and a digest of the content."""
        return f"{self.position} {'null' if self.value is None else hashlib.sha256(self.value).hexdigest()}"

    @property
    def order(self) -> tuple[bool, str, int, list[int]]:
        """The place and the numbers of the id, which rise in the order of the source.

        Rows of chunks come first: if the log has the same row, the last change of it there is at least as new.
        """
        is_of_log = _CHUNK.fullmatch(self.place) is None
        return is_of_log, self.place, self.copy, [int(number) for number in re.findall(r"-?\d+", self.id)]


def letters_of(rows: pa.Table) -> list[Letter]:
    """Return the letters in source order; of several with the same position and content only the newest."""
    newest: dict[Content, Letter] = {}
    copies: Counter[str] = Counter()
    millis = rows.column("record_time").cast(pa.int64()).to_pylist()
    for row, time in zip(rows.drop_columns(["record_time"]).to_pylist(), millis, strict=True):
        letter = _letter(row, time)
        before = newest.get(letter.content)
        if before is None:
            newest[letter.content] = replace(letter, copy=copies[letter.position])
            copies[letter.position] += 1
        elif before.attempt <= letter.attempt:
            newest[letter.content] = replace(letter, copy=before.copy)
    return sorted(newest.values(), key=lambda letter: letter.order)


def _letter(row: dict[str, Any], millis: int | None) -> Letter:
    place, _, id_ = row["source_position"].rpartition("@")
    headers = row["headers"]
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    return Letter(
        place,
        id_,
        row["topic"],
        row["partition"],
        row["raw_value"],
        row["raw_key"],
        millis,
        tuple(pairs),
        row["attempt"] or 0,
    )


def settle(table: Table, letters: Sequence[Letter], bad: dict[str, tuple[str, str]], pipeline: str) -> None:
    """Delete the replayed letters from the table, and increase the attempt of letters that are still bad.

    If it dies between its commits, the replayed letters are deleted, and the tables have their rows. A letter that is
    still bad exists once, or twice with different attempts, and is read as one.
    """
    ours = pc.field("pipeline") == pipeline
    good = [letter for letter in letters if letter.name not in bad]
    if good:
        table.delete(_rows_of(table, ours, good))
    still = [letter for letter in letters if letter.name in bad]
    if not still:
        return
    table = table.refresh()
    rows = _newest(table.scan(where=_rows_of(table, ours, still)).to_arrow(), still)
    with table.writer() as writer:
        # First the letters with their new attempt, then the deletion of the old ones: a crash in between leaves a
        # letter twice, never not at all.
        writer.write(_tried_again(rows, {letter.content: bad[letter.name] for letter in still}))
        writer.commit()
    for attempt in sorted({letter.attempt for letter in still}):
        table = table.refresh()
        old = (pc.field("attempt") <= attempt) | pc.field("attempt").is_null()
        table.delete(_rows_of(table, ours, [letter for letter in still if letter.attempt == attempt]) & old)


def are_there(table: Table, letters: Sequence[Letter], pipeline: str) -> bool:
    """Return whether the table has all of these letters."""
    positions = pa.array(sorted({letter.position for letter in letters}), pa.string())
    ours = (pc.field("pipeline") == pipeline) & pc.field("source_position").isin(positions)
    found = table.scan(columns=list(_CONTENT), where=ours).to_arrow()
    return {letter.content for letter in letters} <= set(_contents(found))


def _rows_of(table: Table, ours: pc.Expression, letters: Sequence[Letter]) -> pc.Expression:
    """Return the condition for the rows of these letters, and of no other letter at their positions."""
    chosen = {letter.content for letter in letters}
    positions = {letter.position for letter in letters}
    there = table.scan(columns=list(_CONTENT), where=ours & pc.field("source_position").isin(list(positions)))
    shared = {content[0] for content in _contents(there.to_arrow()) if content not in chosen}
    where = pc.field("source_position").isin(pa.array(sorted(positions - shared), pa.string()))
    pairs = [content for content in chosen if content[0] in shared]
    return ours & _any_of([where, *(_has_content(pair) for pair in pairs)])


def _has_content(content: Content) -> pc.Expression:
    position, value = content
    raw = pc.field("raw_value")
    return (pc.field("source_position") == position) & (raw.is_null() if value is None else raw == value)


def _any_of(conditions: Sequence[pc.Expression]) -> pc.Expression:
    """Return a condition that is a tree of small depth, because a deep one overflows the stack."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any_of(conditions[:middle]) | _any_of(conditions[middle:])


def _contents(rows: pa.Table) -> list[Content]:
    return list(zip(*(rows[name].to_pylist() for name in _CONTENT), strict=True))


def _newest(rows: pa.Table, letters: Sequence[Letter]) -> pa.Table:
    """Return one row per letter: a previous call that died may have left two."""
    attempts = {letter.content: letter.attempt for letter in letters}
    found: dict[Content, int] = {}
    for place, (content, attempt) in enumerate(zip(_contents(rows), rows["attempt"].to_pylist(), strict=True)):
        if (attempt or 0) == attempts[content]:
            found[content] = place
    return rows.take(pa.array(sorted(found.values()), pa.int64()))


def _tried_again(rows: pa.Table, bad: Mapping[Content, tuple[str, str]]) -> pa.Table:
    # Arrow's sum with a Python number is int64, and the column is INT.
    attempts = pc.add(pc.fill_null(rows["attempt"], 0), 1).cast(pa.int32())
    why = [bad[content] for content in _contents(rows)]
    for name, values in (
        ("attempt", attempts),
        ("error_class", pa.array([kind for kind, _ in why])),
        ("error", pa.array([text for _, text in why])),
    ):
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)
    return rows
