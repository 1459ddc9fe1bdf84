from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.pipelines.run.errors import CheckpointMismatch
from penstock.pipelines.run.identity import BatchIdentity, check_checkpoint
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from tests.unit.table.tables import new_table

FIRST = BatchIdentity("shop", "uuid-1", 5, {"offsets": {"t": {"0": 1}}}, {"offsets": {"t": {"0": 9}}})


def commit(table: Table, identity: BatchIdentity) -> None:
    Committer(table.store, identity.user).commit([], identity.number, properties=identity.properties, force_empty=True)


def found(table: Table, identity: BatchIdentity) -> bool:
    return identity.is_in(Committer(table.store, identity.user).committed(identity.number), "t")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = new_table(tmp_path)
    commit(made, FIRST)
    return made


def test_the_same_batch_is_known_again(table: Table) -> None:
    assert found(table, FIRST)


def test_the_next_batch_is_new(table: Table) -> None:
    assert not found(table, replace(FIRST, number=6))


def test_the_order_of_keys_in_offsets_does_not_matter(table: Table) -> None:
    identity = replace(FIRST, number=6, end={"a": 1, "b": 2})
    commit(table, identity)
    assert found(table, replace(identity, end={"b": 2, "a": 1}))


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, end={"offsets": {"t": {"0": 10}}}),
        replace(FIRST, number=4),
    ],
    ids=["another range", "an older number"],
)
def test_a_rewound_or_copied_checkpoint_is_a_mismatch(table: Table, other: BatchIdentity) -> None:
    with pytest.raises(CheckpointMismatch):
        found(table, other)


def test_another_checkpoint_of_the_pipeline_is_refused_unless_accepted(table: Table) -> None:
    other = replace(FIRST, checkpoint="uuid-2", number=0)
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        check_checkpoint(table.store, other, accept_replay=False)
    check_checkpoint(table.store, other, accept_replay=True)
    check_checkpoint(table.store, FIRST, accept_replay=False)


def test_another_pipeline_may_write_beside(table: Table) -> None:
    check_checkpoint(table.store, replace(FIRST, pipeline="other", checkpoint="x"), accept_replay=False)
