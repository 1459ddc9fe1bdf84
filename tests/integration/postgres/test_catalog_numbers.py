"""Statements that write several rows of the catalog in one transaction, whose number fits the numbers of these rows.

Numbers of rows that are the xor of a row's number and its transaction's are swapped by that, so that no sum shows it.
"""

from __future__ import annotations

import pytest

from penstock.ingest.postgres.server.catalog import PgTableFacts, list_tables
from penstock.ingest.postgres.server.connection import connected
from tests.integration.postgres.sync import PgPlayground
from tests.integration.postgres.test_connection import address

pytestmark = pytest.mark.postgres
PARTS = "t(id int PRIMARY KEY) PARTITION BY RANGE (id)"
# What is made in one transaction, the two rows of the catalog, and what is done to both in another transaction.
CASES = {
    "columns": (
        "CREATE TABLE t(id int PRIMARY KEY, a int, b int, c int, d int)",
        "SELECT attnum FROM pg_attribute WHERE attrelid = 't'::regclass AND attname IN ('a', 'd') ORDER BY 1",
        "ALTER TABLE t ALTER a TYPE int USING a + 1, ALTER d TYPE int USING d + 1",
        "marks",
    ),
    "partitions": (
        f"CREATE TABLE {PARTS}; CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (0) TO (1); "
        "CREATE TABLE p2 PARTITION OF t FOR VALUES FROM (1) TO (2)",
        "SELECT inhrelid FROM pg_inherits WHERE inhparent = 't'::regclass ORDER BY 1",
        "ALTER TABLE t DETACH PARTITION p1; ALTER TABLE t DETACH PARTITION p2; INSERT INTO p1 VALUES (0); "
        "ALTER TABLE t ATTACH PARTITION p1 FOR VALUES FROM (0) TO (1); "
        "ALTER TABLE t ATTACH PARTITION p2 FOR VALUES FROM (1) TO (2)",
        "parts",
    ),
    "labels": (
        "CREATE TYPE e AS ENUM ('a', 'b'); CREATE TABLE t(id int PRIMARY KEY, a e)",
        "SELECT oid FROM pg_enum WHERE enumtypid = 'e'::regtype ORDER BY 1",
        "ALTER TYPE e RENAME VALUE 'a' TO 'c'; ALTER TYPE e RENAME VALUE 'b' TO 'a'; "
        "ALTER TYPE e RENAME VALUE 'c' TO 'b'",
        "silent",
    ),
}


def in_a_transaction(server: PgPlayground, statements: str) -> int:
    return int(server.run(f"BEGIN; {statements}; SELECT pg_current_xact_id()::text; COMMIT").splitlines()[-1])


def facts(server: PgPlayground) -> PgTableFacts:
    with connected(address(server)) as connection:
        return next(table for table in list_tables(connection) if table.table == "t")


@pytest.mark.parametrize("case", CASES)
def test_rows_that_were_all_written_again_have_other_numbers(server: PgPlayground, case: str) -> None:
    made, numbered, changed, number = CASES[case]
    for _ in range(256):
        server.start_over()
        first = in_a_transaction(server, made)
        one, two = map(int, server.run(numbered).split())
        wanted = first ^ one ^ two
        if wanted <= first:
            continue
        before, last = facts(server), first
        while last + 1 < wanted:
            last = in_a_transaction(server, "SELECT 1")
        # The server's own transactions, such as those of autovacuum, may have taken the number.
        if last + 1 == wanted and in_a_transaction(server, changed) == wanted:
            break
    else:
        pytest.fail("no transaction got the wanted number")
    assert getattr(facts(server), number) != getattr(before, number)
