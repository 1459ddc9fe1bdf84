"""Parked tables: the slot keeps no changes that were read, so that a table that missed them has to be copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PositionLost
from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres
FIXED = ("--isolate", "true", "--type-mapping", "allow-non-string-to-string")


def parked(server: PgPlayground, folder: Path) -> PgSync:
    """Return a pipeline that has parked the table t in its last batch."""
    for table in ("t", "u"):
        server.create(table, "id int PRIMARY KEY, v int")
        server.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    sync = PgSync(server, folder, flags=("--isolate", "true"))
    sync.run()
    server.run("ALTER TABLE t ALTER COLUMN v TYPE text USING 'a' || v", "DELETE FROM t WHERE id = 1")
    server.run("INSERT INTO t VALUES (3, 'b')", "INSERT INTO u VALUES (3, 3)")
    sync.run()
    assert (sorted(sync.rows("t")), sorted(sync.rows("u"))) == ([1, 2], [1, 2, 3])
    return sync


def test_a_retry_says_that_the_table_has_to_be_copied(server: PgPlayground, tmp_path: Path) -> None:
    sync = parked(server, tmp_path)
    for key in (4, 5):
        server.run(f"INSERT INTO t VALUES ({key}, 'c')", f"INSERT INTO u VALUES ({key}, 4)")
        sync.run()
    with pytest.raises(PositionLost, match="that a parked table missed") as refused:
        PgSync(server, tmp_path, flags=[*FIXED, "--retry", "true"]).run()
    assert refused.value.facts["table"] == "ods.t"
    assert "--reset ods.t" in str(refused.value.hint)
    copied = PgSync(server, tmp_path, flags=[*FIXED, "--reset", "ods.t"])
    copied.run()
    assert {key: row["v"] for key, row in copied.rows("t").items()} == {2: "a2", 3: "b", 4: "c", 5: "c"}
    assert all(verdict.is_equal for verdict in copied.verified(PgSync(server, tmp_path, flags=FIXED).spec).values())
