from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.ingest.connector_requests import Preparation, SourceRequest
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.connector import CONNECTOR
from penstock.pipelines.errors import CheckpointMismatch, ReplayUndecidable
from penstock.pipelines.ledger.batch_identity import BatchIdentity, shows_replay, was_committed_before
from penstock.pipelines.ledger.lineage import Lineage
from penstock.schema_evolution.row_versions import as_history
from penstock.storage.state_folder import StateFolder
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.schema.new_schema import create_schema
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


def test_the_same_batch_is_recognised(table: Table) -> None:
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
    other = replace(FIRST, checkpoint="uuid-2", number=0, end={"offsets": {}})
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        was_committed_before(table.store, other, accept_replay=False)
    assert not was_committed_before(table.store, other, accept_replay=True)
    assert not was_committed_before(table.store, FIRST, accept_replay=False)


def test_another_pipeline_may_write_the_same_table(table: Table) -> None:
    assert not was_committed_before(table.store, replace(FIRST, pipeline="other", checkpoint="x"), accept_replay=False)


def test_a_new_checkpoint_resumes_from_the_tables_and_their_last_batch(table: Table) -> None:
    follower = replace(FIRST, checkpoint="uuid-2", number=0)
    assert was_committed_before(table.store, follower, follows={FIRST.user})
    assert not was_committed_before(table.store, replace(follower, number=1, end={"offsets": {}}), follows={FIRST.user})


@pytest.mark.parametrize(
    ("options", "undecidable"),
    [
        ({}, False),
        ({"changelog-producer": "input"}, True),
        ({"changelog-producer": "lookup"}, True),
        ({"merge-engine": "aggregation"}, True),
    ],
)
def test_a_batch_without_proof_is_replayed_only_if_the_replay_is_not_visible(
    tmp_path: Path, options: dict[str, str], undecidable: bool
) -> None:
    table = new_table(tmp_path, options=options)
    planned = table.store.ambient.now_millis()
    batch = replace(FIRST, end={"now": planned})
    time.sleep(0.01)
    commit(table, batch)
    for number in range(3):
        with table.writer(commit_user="stranger") as stranger:
            stranger.write(table.scan().to_arrow())
            Committer(table.store, "stranger").commit([], number, force_empty=True)
    assert found(table, batch)
    source = MySqlConfig(type="mysql", hostname="h", username="u", password="p", database_name="d", table_name="t")
    request = SourceRequest(state=StateFolder("/s"), snapshot_requests=StateFolder("/r"))
    prepared = CONNECTOR.prepare(source, request, Preparation(is_new=True, exact=shows_replay(table.store.schema())))
    assert prepared.settings.snapshot == ("exact" if undecidable else "watermark")
    expire_snapshots(table.store, retain_max=1, retain_min=1, older_than=planned + 10**9, protect_users=0)
    assert not found(table, batch)
    if undecidable:
        with pytest.raises(ReplayUndecidable):
            was_committed_before(table.store, batch)
    assert not was_committed_before(table.store, batch, accept_replay=True)
    later = replace(batch, number=6, end={"now": table.store.ambient.now_millis() + 1})
    assert not was_committed_before(table.store, later)


class Warehoused:
    """Tables whose clock is ours."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = CatalogSettings.of(str(folder), {"local.sync": "false"})
        self.clock = 10_000_000
        for table in ("d.a", "d.b"):
            self.warehouse.created(table, create_schema([("id", "INT")], options={"bucket": "-1"}, now=1))
            store = self.warehouse.store(table)
            object.__setattr__(store, "ambient", replace(store.ambient, now_millis=lambda: self.clock))

    def commit(self, checkpoint: str, number: int, *tables: str) -> BatchIdentity:
        made = BatchIdentity("p", checkpoint, number, {"t": {"0": number}}, {"t": {"0": number + 1}})
        for table in tables:
            store = self.warehouse.store(table)
            Committer(store, made.user).commit([], made.number, properties=made.properties, force_empty=True)
        return made

    def resumed(self) -> dict[str, object]:
        return dict(Lineage.of(self.warehouse, ["d.a", "d.b"], "p").last().end)


def test_a_clock_set_back_hides_no_batch(tmp_path: Path) -> None:
    here = Warehoused(tmp_path)
    here.commit("one", 5, "d.a", "d.b")
    here.clock -= 3_600_000
    last = here.commit("one", 6, "d.b")
    assert here.resumed() == last.end


def test_the_last_of_several_checkpoints_is_used_despite_clocks_and_numbers(tmp_path: Path) -> None:
    for number, (back, tables) in enumerate(itertools.product((0, 3_600_000), (("d.a",), ("d.b",), ("d.a", "d.b")))):
        here = Warehoused(tmp_path / str(number))
        here.commit("one", 7, "d.a", "d.b")
        here.clock += 1000 - back
        last = here.commit("two", 0, *tables)
        assert here.resumed() == last.end, number


def test_a_repeated_change_is_visible_in_a_history_table() -> None:
    names = ("valid_from", "valid_to", "is_current", "_operation", "_position", "_end_position")
    schema = create_schema([("id", "INT"), *((name, "STRING") for name in names)], ["id"], (), {"bucket": "1"}, now=0)
    assert not shows_replay(schema)
    assert shows_replay(as_history("ods.t", schema))
