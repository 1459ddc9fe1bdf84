"""PostgreSQL 14, 16 and 17: a table is copied and followed as with the versions that have more tests, 15 and 18."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.postgres.test_rewritten_values import (  # noqa: F401 - collected here, with the servers of this file
    test_values_of_partitions_are_read_again,
)
from tests.integration.postgres.test_sync import (  # noqa: F401 - collected here, with the servers of this file
    test_table_is_copied_followed_and_continued_after_a_restart,
    test_unchanged_long_values_are_kept,
    test_values_are_the_same_from_snapshot_and_log,
)
from tests.integration.postgres.test_verify import (  # noqa: F401 - collected here, with the servers of this file
    test_tables_equal_their_sources_at_the_position_of_the_pipeline,
)
from tests.servers.launch import Kind, running

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
VERSIONS: tuple[Kind, ...] = ("postgres-14", "postgres-16", "postgres-17")


@pytest.fixture(scope="module", params=VERSIONS)
def server_port(request: pytest.FixtureRequest) -> Iterator[int]:
    # Not below pytest's folders: the server runs as a user of its own, which may not enter them.
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with running(request.param, Path(folder)) as port:
            yield port
