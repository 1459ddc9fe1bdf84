"""Updates that are two messages (aliyun-json), when a batch ends between the two."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.table.catalog.catalog import Catalog
from tests.here import run
from tests.integration.kafka.test_pairs_of_messages import FLAGS, MOVES, summed
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.sync import Sync

pytestmark = pytest.mark.pulsar


@pytest.mark.parametrize("kind", ["soft", "partial-update"])
def test_a_key_that_moves_between_two_batches_is_moved(broker: Broker, tmp_path: Path, kind: str) -> None:
    sync, topic = Sync(broker, tmp_path, "aliyun-json"), broker.topic()
    for begin, end in ((0, 1), (1, 3), (3, 5), (5, 7), (7, 8)):
        broker.send(topic, *MOVES[begin:end])
        run(sync.spec(topic, "--table", "t", *FLAGS[kind]))
    left = [(row["id"], row["v"]) for row in sync.rows("t") if not row.get("_deleted")]
    assert left == [(2, "c"), (6, "d")]
    if kind == "soft":
        assert sorted(row["id"] for row in sync.rows("t") if row["_deleted"]) == [1, 5]


@pytest.mark.parametrize("large", [False, True], ids=["small", "in chunks"])
def test_an_old_row_at_the_end_of_a_batch_is_read_once(broker: Broker, tmp_path: Path, *, large: bool) -> None:
    sync, topic = Sync(broker, tmp_path, "aliyun-json"), broker.topic()
    sums = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("ods")
    catalog.create_table("ods.t", [("id", "BIGINT"), ("v", "BIGINT")], ["id"], options={"bucket": "1", **sums})
    space = " " * 50_000 if large else ""
    for step in (
        (("INSERT", 5), ("UPDATE_BEFORE", 5)),
        (("UPDATE_AFTER", 7),),
        (("UPDATE_BEFORE", 7),),
        (("DELETE", 7),),
    ):
        broker.send(topic, *(summed(*message) + space for message in step), chunking=large)
        run(sync.spec(topic, "--table", "t"))
    # The last old row has no new one, so it counts by itself.
    assert sync.rows("t") == [{"id": 1, "v": -7}]
