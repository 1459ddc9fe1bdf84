"""Logs whose files have checksums in part, because the setting was changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def former_checksums(server: Playground) -> Iterator[None]:
    yield
    server.run("SET GLOBAL binlog_checksum = CRC32")


def test_a_log_is_continued_after_checksums_were_turned_off_and_on(server: Playground, tmp_path: Path) -> None:
    server.start_over()
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(server, tmp_path)
    sync.run()
    for number, checksums in enumerate(("NONE", "CRC32", "NONE"), 1):
        server.run(f"INSERT INTO t VALUES ({number * 10})")
        sync.run()
        # The rest of the file that was begun with the former setting, and the next file.
        server.run(f"INSERT INTO t VALUES ({number * 10 + 1})", f"SET GLOBAL binlog_checksum = {checksums}")
        server.run(f"INSERT INTO t VALUES ({number * 10 + 2})")
        sync.run()
    assert sync.ids("t") == [1, 10, 11, 12, 20, 21, 22, 30, 31, 32]
