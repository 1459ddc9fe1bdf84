"""The places of all values of many Avro blocks, found side by side.

Where an Avro value begins is known only when the one before it was passed. But where each block begins is known, so
that all blocks are walked through at once: a step passes one value of each block, with a few calls of numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.table.files.avro.block_bytes import BlockBytes, Places
from penstock.table.files.avro.sizes import ENCODED_AS, RECORD, TEXT, WIDTHS, Kind, kind_of

Member = Mapping[str, Any]
Path = tuple[str, ...]
# Takes where a value begins in each block, and returns where it ends.
Step = Callable[[Places], Places]


def can_walk(node: Any) -> bool:
    """Return whether records of this schema can be walked: not if they have arrays or maps, of any number of items."""
    match node:
        case {"type": "record", "fields": fields}:
            return bool(fields) and all(can_walk(field["type"]) for field in fields)
        case ["null", branch]:
            return can_walk(branch)
        case list():
            # Other writers order the branches as they like, and may have one branch or several.
            return False
    return kind_of(node) in ENCODED_AS


def kinds(members: Sequence[Member]) -> Iterator[Kind]:
    """Yield the kinds of values in a record."""
    for member in members:
        node, nullable = _branch(member["type"])
        if kind_of(node) == RECORD:
            yield from kinds(node["fields"])
        if kind_of(node) != RECORD or nullable:
            yield ENCODED_AS[kind_of(node)], nullable


def least_bytes(members: Sequence[Member]) -> int:
    """Return how many bytes a record of the schema has at least: those of a record in zeros."""
    sizes = 0
    for member in members:
        node, nullable = _branch(member["type"])
        if nullable or kind_of(node) not in (RECORD, *WIDTHS):
            sizes += 1
        else:
            sizes += least_bytes(node["fields"]) if kind_of(node) == RECORD else WIDTHS[kind_of(node)]
    return sizes


def _branch(node: Any) -> tuple[Any, bool]:
    return (node[1], True) if isinstance(node, list) else (node, False)


class Walk:
    """A walk through blocks with records of one schema, which keeps the places of the `wanted` columns.

    Places have the path of their value: the names of the members. That of a nullable record is the place of its branch.
    """

    def __init__(self, data: BlockBytes, members: Sequence[Member], wanted: Collection[str]) -> None:
        self._data = data
        self._found: dict[Path, list[Places]] = {}
        self._steps: list[Step] = []
        for member in members:
            self._steps += self._value((member["name"],), member["type"], keep=member["name"] in wanted)

    def _value(self, path: Path, node: Any, *, keep: bool) -> list[Step]:
        node, nullable = _branch(node)
        if kind_of(node) != RECORD:
            return [self._passing((ENCODED_AS[kind_of(node)], nullable), self._kept(path, keep))]
        members = [
            step for field in node["fields"] for step in self._value((*path, field["name"]), field["type"], keep=keep)
        ]
        return [self._nullable_record(members, self._kept(path, keep))] if nullable else members

    def _kept(self, path: Path, keep: bool) -> list[Places] | None:
        return self._found.setdefault(path, []) if keep else None

    def _passing(self, kind: Kind, kept: list[Places] | None) -> Step:
        sizes = self._data.sizes[kind]

        def step(at: Places) -> Places:
            if kept is not None:
                kept.append(at)
            found: Any = sizes[at]
            # numpy takes longer to look for a zero.
            if b"\0" in found.tobytes():
                found = self._with_long_texts(at, found, kind)
            ends: Places = at + found
            return ends

        return step

    def _with_long_texts(self, at: Places, sizes: Any, kind: Kind) -> Places:
        long = np.flatnonzero(sizes == 0)
        name, nullable = kind
        if name != TEXT:
            raise ValueError("a value selects a branch that its union does not have")
        whole: Places = sizes.astype(np.int64)
        whole[long] = self._data.long_sizes(at[long], nullable=nullable)
        return whole

    def _nullable_record(self, members: Sequence[Step], kept: list[Places] | None) -> Step:
        branch = self._passing((RECORD, True), kept)

        def step(at: Places) -> Places:
            after = branch(at)
            present = self._data.data[at] == 2
            # Where the record is null, its members are passed over zeros, and their end is ignored.
            ends = np.where(present, after, self._data.end)
            for member in members:
                ends = member(ends)
            return np.where(present, ends, after)

        return step

    def places(self, starts: Places, ends: Places, counts: Places) -> dict[Path, Places]:
        """Return the places of the wanted values by path, in the order of the records.

        ValueError or IndexError when the records of a block, `counts` of them from `starts`, do not end at `ends`.
        """
        # With the blocks of most records in front, those that have a further record are always the first ones.
        order = np.argsort(-counts, kind="stable")
        walking = np.searchsorted(-counts[order], -np.arange(int(counts.max(initial=0))), "left")
        at, last = starts[order], np.empty_like(starts)
        for blocks in walking.tolist():
            if blocks < len(at):
                last[order[blocks : len(at)]] = at[blocks:]
                at = at[:blocks]
            for step in self._steps:
                at = step(at)
        last[order[: len(at)]] = at
        if not np.array_equal(last, ends):
            raise ValueError(_wrong_end(starts, last, ends, counts))
        rows = _as_met(order, walking, counts)
        return {path: _in_order(found, rows) for path, found in self._found.items()}


def _wrong_end(starts: Places, last: Places, ends: Places, counts: Places) -> str:
    block = int(np.flatnonzero(last != ends)[0])
    return f"{counts[block]} records end at byte {last[block] - starts[block]} of {ends[block] - starts[block]}"


def _as_met(order: Places, walking: Places, counts: Places) -> Places | None:
    """Return the place in the walk of each record; None if the walk passed the records in their order."""
    total = int(counts.sum())
    if len(walking) <= 1 and total == len(order):
        return None
    before = np.zeros(len(walking) + 1, np.int64)
    np.cumsum(walking, out=before[1:])
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    numbers = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return before[numbers] + np.repeat(rank, counts)


def _in_order(found: list[Places], rows: Places | None) -> Places:
    places = np.concatenate(found) if found else np.empty(0, np.int64)
    return places if rows is None else places[rows]
