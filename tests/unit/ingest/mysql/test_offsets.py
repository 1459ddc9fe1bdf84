"""Offsets are the same after a checkpoint, with and without conditions of users."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.ingest.database.table_parts import TablePart, unfinished_parts
from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
from penstock.ingest.mysql.offsets import BatchContent, Progress, range_from, range_json
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor

NAME = ("shop", "t")
CURSOR = ChunkCursor(*NAME, ("id",), "walk", 40, 2, ("80",), estimate=5, rows=40)
CHUNK = Chunk(*NAME, 1, ("id",), ("40",), ("80",))
# As a version without conditions wrote them.
WRITTEN: dict[str, Any] = {
    "v": 1,
    "server": "uuid-1",
    "phase": "snapshot",
    "log": LogPosition("binlog.000003", 157).to_json(),
    "waiting": [["shop", "u"]],
    "cursors": [
        {
            "database": "shop", "table": "t", "key": ["id"], "way": "walk", "step": 40, "number": 2,
            "lower": ["80"], "limit": None, "estimate": 5, "done": False, "rows": 40,
        }
    ],
    "batch": {
        "chunks": [{"database": "shop", "table": "t", "number": 1, "key": ["id"], "lower": ["40"], "upper": ["80"]}]
    },
}  # fmt: skip


def progress_of(cursor: ChunkCursor = CURSOR, chunk: Chunk = CHUNK, **more: Any) -> Progress:
    batch = BatchContent((chunk,))
    log = LogPosition("binlog.000003", 157)
    return Progress("uuid-1", log, waiting=(("shop", "u"),), cursors=(cursor,), batch=batch, **more)


def test_offsets_without_conditions_are_as_before() -> None:
    assert Progress.from_json(WRITTEN) == progress_of()
    assert progress_of().to_json() == WRITTEN


def test_conditions_are_kept_in_a_checkpoint() -> None:
    part = TablePart(("shop", "v"), "n = 'x'")
    cursor, chunk = replace(CURSOR, where="id > 1"), replace(CHUNK, where="id > 1")
    progress = progress_of(cursor, chunk, parts=(part,), refused=("shop.w where n: no",))
    written = progress.to_json()
    assert json.loads(json.dumps(written)) == written
    assert Progress.from_json(written) == progress
    assert unfinished_parts(written) == ["shop.t where id > 1", "shop.v where n = 'x'"]
    assert progress.unread == [("shop", "u"), NAME, ("shop", "v")]


def test_emptied_tables_are_kept_in_a_checkpoint() -> None:
    progress = progress_of(emptied=(NAME,), emptied_at=LogPosition("binlog.000004", 200))
    written = progress.to_json()
    assert json.loads(json.dumps(written)) == written
    assert Progress.from_json(written) == progress


def test_prepared_transactions_whose_rows_tables_lack_are_kept_in_a_checkpoint() -> None:
    users, orders = ("shop", "users"), ("shop", "orders")
    before = progress_of(prepared=("a",)).lacking_prepared([users])
    end = replace(before, prepared=("a", "b")).lacking_prepared([orders])
    assert end.lacking == (("a", (users, orders)), ("b", (orders,)))
    assert Progress.from_json(json.loads(json.dumps(end.to_json()))) == end
    assert end.lacking_prepared([]) == end


def test_part_is_superfluous_if_the_whole_table_waits() -> None:
    parts = [TablePart(NAME, "id > 1"), TablePart(("shop", "u"), "id > 1")]
    # The table that is being cut is not narrowed, and its first rows were read before.
    found = progress_of().reading_parts(parts)
    assert (found.cursors, found.parts) == ((CURSOR,), (parts[0],))
    whole = found.reading([NAME])
    assert (whole.waiting, whole.cursors, whole.parts) == ((("shop", "u"), NAME), (), ())
    cut = progress_of(replace(CURSOR, where="id > 1")).reading([NAME])
    assert (cut.waiting, cut.cursors) == ((("shop", "u"), NAME), ())


@pytest.mark.parametrize("rolled_back", [(), ((40, 60),)])
@pytest.mark.parametrize("begun", [0, 1_700_000_000])
def test_ranges_of_the_log_are_kept_in_a_checkpoint(rolled_back: tuple[tuple[int, int], ...], begun: int) -> None:
    part = BinlogRange("binlog.000003", 4, 157, (b"\x01",), "uuid-1:1-3", rolled_back, begun)
    written = range_json(part)
    assert range_from(json.loads(json.dumps(written))) == part
    if not begun:  # as an older release wrote it
        assert len(written) == 5 + bool(rolled_back)


def test_position_says_when_its_file_was_begun() -> None:
    position = LogPosition("binlog.000003", 157, begun=1_700_000_000)
    assert LogPosition.from_json(position.to_json()) == position
