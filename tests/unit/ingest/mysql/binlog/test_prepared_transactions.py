"""XA transactions of a part of the log: which are prepared at its end, and which commits were not prepared in it."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.prepared_transactions import PreparedTransactions
from penstock.ingest.mysql.binlog.segment import Segment
from penstock.ingest.mysql.ddl.query import Query


class Prepared:
    """A segment with one event: the preparation of a transaction, or of one that is committed at once."""

    def __init__(self, name: str, *, in_one_phase: bool = False, kind: int = events.XA_PREPARE) -> None:
        self.file, self.kind, self.pos = "binlog.000001", np.array([kind], np.uint8), np.array([4])
        self._one_phase, self._name = in_one_phase, name.encode()

    def body(self, _: int) -> bytes:
        lengths = (1).to_bytes(4, "little") + len(self._name).to_bytes(4, "little") + bytes(4)
        return bytes([self._one_phase]) + lengths + self._name


def follow(found: PreparedTransactions, segment: Prepared) -> None:
    found.follow(cast("Segment", segment), 0, 1)


def end(found: PreparedTransactions, verb: str, name: str) -> None:
    statement = f"XA {verb} X'{name.encode().hex()}',X'',1"
    found.statement(Query(statement, "", ansi_quotes=False, backslash_escapes=True), "binlog.000001", 100)


@pytest.mark.parametrize("before", [(), None], ids=["all known", "offsets of former versions"])
def test_a_commit_of_a_transaction_that_the_log_has_shown_is_not_alone(before: tuple[str, ...] | None) -> None:
    found = PreparedTransactions(before)
    for verb in ("COMMIT", "ROLLBACK"):
        follow(found, Prepared("a"))
        end(found, verb, "a")
    assert (found.names, found.lone) == (before, [])


def test_a_commit_of_an_unknown_transaction_is_alone_and_a_rollback_is_not() -> None:
    found = PreparedTransactions(["x'62',x'',1"])
    follow(found, Prepared("c", in_one_phase=True))
    for verb, name in (("ROLLBACK", "a"), ("COMMIT", "b"), ("COMMIT", "c")):
        end(found, verb, name)
    assert (found.names, [commit.name for commit in found.lone]) == ((), ["x'63',x'',1"])


def test_a_commit_of_rows_that_a_table_lacks_is_alone_once() -> None:
    name, tables = "x'61',x'',1", (("shop", "users"),)
    found = PreparedTransactions([name], ((name, tables),))
    end(found, "COMMIT", "a")
    follow(found, Prepared("a"))
    end(found, "COMMIT", "a")
    assert ([(commit.name, commit.tables) for commit in found.lone], found.lacking) == ([(name, tables)], ())


def test_a_name_is_used_again_after_a_rollback_of_rows_that_a_table_lacks() -> None:
    name = "x'61',x'',1"
    found = PreparedTransactions([name], ((name, (("shop", "users"),)),))
    end(found, "ROLLBACK", "a")
    follow(found, Prepared("a"))
    end(found, "COMMIT", "a")
    assert found.lone == []


def test_a_compressed_transaction_may_hide_a_preparation() -> None:
    found = PreparedTransactions(())
    follow(found, Prepared("a"))
    follow(found, Prepared("", kind=events.TRANSACTION_PAYLOAD))
    assert found.names is None
    end(found, "COMMIT", "a")
    assert found.lone == []
