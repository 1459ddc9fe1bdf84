"""Partitions whose rows are in the log, from messages made by hand."""

from __future__ import annotations

import pytest

from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.log.partitions import LoggedPartition, LoggedPartitions
from penstock.ingest.postgres.received import Received
from tests.unit.ingest.postgres.pgoutput import begin, commit, insert, relation, truncate

COLUMNS = [("id", 23)]
T, P1, P2, U = (relation(oid, name, COLUMNS) for oid, name in ((1, "t"), (11, "p1"), (12, "p2"), (2, "u")))
LOG = [
    *(begin(100), T, P1, insert(1, ["1"]), insert(1, ["2"]), U, insert(2, ["1"]), commit(100)),
    *(begin(200), insert(1, ["3"]), T, P2, insert(1, ["4"]), commit(200)),
    *(begin(300), T, U, truncate(1, 2), insert(1, ["5"]), commit(300)),
]


@pytest.mark.parametrize("block", [1, 2, 3, 7, len(LOG)])
def test_the_description_before_a_row_of_another_table_is_of_a_partition(block: int) -> None:
    partitions = LoggedPartitions()
    for first in range(0, len(LOG), block):
        partitions.take(MessageBlock.of(Received.of(LOG[first : first + block])))
    assert partitions.found == [
        LoggedPartition(11, 1, "public.p1", 100),
        LoggedPartition(12, 1, "public.p2", 200),
    ]
