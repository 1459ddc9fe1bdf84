"""Offsets are the same after a checkpoint, and contain only what a restart needs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from penstock.ingest.database.table_parts import TablePart, unfinished_parts
from penstock.ingest.postgres.offsets import AlteredTable, PgBatch, PgProgress
from penstock.ingest.postgres.server.log_sample import LogSample
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn
from penstock.ingest.postgres.server.silent_columns import NONE, SilentColumns
from penstock.ingest.postgres.server.table_version import TableVersion
from penstock.ingest.postgres.snapshot.chunks import KeyChunk
from penstock.ingest.source import Barrier

CHUNK = KeyChunk(7, "public", "t", ("a", "b"), ("integer", "text"), ("1", "x"), ("2", "it's"), 3)


def progress_of(**more: Any) -> PgProgress:
    return PgProgress(server="77", database="shop", slot="s", log=16, **more)


def test_progress_is_equal_after_a_checkpoint() -> None:
    barriers = (Barrier("truncate", "public", "t"), Barrier("added-columns", "public", "t", (("c", "c"),)))
    batch = PgBatch(5, (CHUNK,), barriers, 7, (("public", "new"),), (("public", "t", 2),), ("drop",))
    progress = PgProgress(
        server="77",
        database="shop",
        slot="s",
        timeline=3,
        log=1 << 40,
        known=(("public", "t"),),
        waiting=(("public", "u"),),
        rest=CHUNK,
        visible_from=9,
        settle=11,
        exact_from=13,
        fresh=(("public", "new"),),
        emptied=(("public", "t", 3),),
        versions={
            ("public", "t"): TableVersion(
                7, 3, ("a", "b"), "abcdef", 10, 20, 30, (8, 1, 8), SilentColumns(40, {2: -50, 3: 0}), -60
            )
        },
        altered=(AlteredTable("added-columns", ("public", "t"), 17, ("c",)), AlteredTable("drop", ("public", "u"), 18)),
        sample=LogSample(12, 16, 3, "abcd", "noon"),
        reread="again",
        signals=("signal",),
        batch=batch,
    )
    written = progress.to_json()
    assert json.loads(json.dumps(written)) == written
    assert PgProgress.from_json(written) == progress


def test_conditions_are_kept_in_a_checkpoint() -> None:
    chunk, part = replace(CHUNK, where="a > 1"), TablePart(("public", "u"), "b = 'x'")
    progress = progress_of(rest=chunk, parts=(part,), refused=("u where n: no",), batch=PgBatch(5, (chunk,)))
    written = progress.to_json()
    assert json.loads(json.dumps(written)) == written
    assert PgProgress.from_json(written) == progress
    assert unfinished_parts(written) == ["public.t where a > 1", "public.u where b = 'x'"]
    # A chunk of a whole table is written as versions without conditions read it.
    assert len(CHUNK.to_json()) == 8


def test_default_parts_are_omitted() -> None:
    assert progress_of().to_json() == {
        "v": 1,
        "server": {"system": "77", "database": "shop"},
        "slot": "s",
        "phase": "stream",
        "log": "0/10",
        "batch": {"from": "0/0"},
    }


def test_tables_that_are_read_again_start_over() -> None:
    progress = progress_of(rest=CHUNK).reading([("public", "t")])
    assert (progress.rest, progress.waiting) == (None, (("public", "t"),))


def test_positions_are_written_as_the_server_prints_them() -> None:
    assert lsn_text(parse_lsn("16/B374D848")) == "16/B374D848"
    assert parse_lsn("1/0") == 1 << 32


def test_tables_read_as_of_a_position_are_settled_at_once() -> None:
    assert not progress_of(batch=PgBatch(16, (CHUNK,))).is_settled
    assert progress_of(batch=PgBatch(16, (CHUNK,), as_of=16)).is_settled
    assert not progress_of(rest=CHUNK).is_settled
    assert not progress_of(settle=17).is_settled


def test_offsets_of_a_release_without_versions_of_tables_are_read() -> None:
    written = progress_of(known=(("public", "t"),)).to_json()
    assert written["known"] == [["public", "t"]]
    assert PgProgress.from_json(written).versions == {}


def test_offsets_of_a_release_without_labels_and_the_publication_are_read() -> None:
    name = ("public", "t")
    version = TableVersion(7, 3, ("a",), "abc", 10, 20, 30, (8, 1, 8), SilentColumns(40, {2: -50}), 60)
    written = progress_of(known=(name,), versions={name: version}).to_json()
    assert written.pop("silent") == {"7": [40, 2, -50]}
    assert written.pop("in_publication") == {"7": 60}
    assert PgProgress.from_json(written).versions == {name: replace(version, silent=NONE, published=0)}


def test_numbers_of_another_computation_are_compared_with_nothing() -> None:
    name = ("public", "t")
    version = TableVersion(7, 3, ("a",), "abc", 10, 20, 30, (8, 1, 8, 5), SilentColumns(40, {2: -50}), 60, 70)
    written = progress_of(known=(name,), versions={name: version}).to_json()
    assert PgProgress.from_json(written).versions == {name: version}
    del written["numbers"]
    known = replace(version, names="---------abc", marks=0, parts=(8, 1, 8), silent=NONE, published=0, toast=0)
    assert PgProgress.from_json(written).versions == {name: known}
