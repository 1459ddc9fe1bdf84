"""The next transaction of the log that empties captured tables, from messages made by hand."""

from __future__ import annotations

import pytest

from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.log.truncations import TruncateScan, TruncateTransaction
from penstock.ingest.postgres.received import Received
from tests.unit.ingest.postgres.pgoutput import begin, commit, insert, relation, truncate

T, U = relation(1, "t", [("id", 23)]), relation(2, "u", [("id", 23)])
LOG = [
    *(begin(100), T, insert(1, ["1"]), U, truncate(2), commit(100)),
    *(begin(200), insert(2, ["1"]), insert(1, ["2"]), truncate(2, 1), insert(1, ["3"]), truncate(1), commit(200)),
    *(begin(300), insert(1, ["4"]), truncate(1), commit(300)),
]


def found(*tables: str, applied: int = 0, block: int = len(LOG)) -> TruncateTransaction | None:
    scan = TruncateScan({("public", table) for table in tables}, applied)
    for first in range(0, len(LOG), block):
        if scan.is_over(MessageBlock.of(Received.of(LOG[first : first + block]))):
            break
    return scan.found


@pytest.mark.parametrize("block", [1, 2, 3, 7, len(LOG)])
def test_first_transaction_is_found_with_the_rows_before_the_last_truncate(block: int) -> None:
    assert found("t", block=block) == TruncateTransaction(200, (("public", "t", 3),))
    assert found("u", block=block) == TruncateTransaction(100, (("public", "u", 1),))
    assert found("t", "u", applied=100, block=block) == TruncateTransaction(
        200, (("public", "u", 2), ("public", "t", 3))
    )
    assert found("t", applied=200, block=block) == TruncateTransaction(300, (("public", "t", 1),))
    assert found("other", block=block) is None
    assert found("t", applied=300, block=block) == TruncateTransaction(200, (("public", "t", 3),))
