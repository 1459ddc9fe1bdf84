from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import CommitMessage
from tests.unit.table.merge.test_sorted_runs import data_file

A, B, C = data_file("a", 0, 1), data_file("b", 0, 1), data_file("c", 0, 1)


def on(level: int, file: DataFile) -> DataFile:
    return replace(file, level=level)


def test_a_file_created_and_replaced_by_two_compactions_is_in_neither_list() -> None:
    first = CompactionResult((A,), (on(4, B),), (), {"b": np.array([1])})
    second = CompactionResult((on(4, B),), (on(5, C),), (), None)
    together = first.then(second)
    assert (together.before, together.after) == ((A,), (on(5, C),))
    assert together.vectors == first.vectors
    assert CompactionResult().then(first) == first
    assert CompactionResult().is_empty
    assert not together.is_empty


def test_an_upgraded_file_is_on_its_new_level_only() -> None:
    upgrade = CompactionResult((A,), (on(5, A),))
    assert upgrade.applied_to([A, B]) == [B, on(5, A)]
    assert upgrade.then(CompactionResult((on(5, A),), (C,))) == CompactionResult((A,), (C,))


def test_a_message_did_not_write_the_files_that_it_upgrades() -> None:
    upgrade = CompactionResult((A,), (on(5, A), on(5, C)))
    message = upgrade.into(CommitMessage(b"", 0, 1, new_files=(B,)))
    assert message.has_compaction
    assert message.written_files == (B, on(5, C))
    own = CompactionResult((B,), (on(5, B),)).into(CommitMessage(b"", 0, 1, new_files=(B,)))
    assert {file.name for file in own.written_files} == {"b"}
