"""A real PgBouncer in front of the server: a pipeline is refused before it leaves anything there, with the way out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.ingest.postgres.errors import BehindPooler
from penstock.ingest.postgres.server.address import SESSION
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync
from tests.servers.launch import running

pytestmark = pytest.mark.postgres
LEFT = "SELECT count(*) FROM pg_replication_slots UNION ALL SELECT count(*) FROM pg_publication"


@contextmanager
def pooled(server: PgPlayground, *settings: str) -> Iterator[PgPlayground]:
    # Not below pytest's folders: it runs as a user of its own, which may not enter them.
    with tempfile.TemporaryDirectory(prefix="penstock-pgbouncer-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with running("pgbouncer", Path(folder), str(server.port), *settings) as port:
            yield PgPlayground(port)


def test_a_pooler_is_named_at_once_and_the_server_is_the_way_out(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    with pooled(server) as pooler, pytest.raises(BehindPooler, match="unsupported startup parameter") as raised:
        PgSync(pooler, tmp_path, "t", conf=["table-name=t"]).run()
    assert not raised.value.retryable
    assert "the PostgreSQL server itself" in str(raised.value)
    assert server.run(LEFT).split() == ["0", "0"]


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_that_ignores_settings_is_found_by_their_lack(server: PgPlayground, tmp_path: Path, mode: str) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    ignored = "ignore_startup_parameters = options, extra_float_digits"
    with pooled(server, f"pool_mode = {mode}", ignored) as pooler, pytest.raises(BehindPooler) as raised:
        PgSync(pooler, tmp_path, "t", conf=["table-name=t"]).run()
    assert "row_security = on" in str(raised.value)
    assert "the PostgreSQL server itself" in str(raised.value)
    assert server.run(LEFT).split() == ["0", "0"]


@pytest.mark.parametrize("ignored", ["", ", replication"])
def test_a_pooler_without_replication_is_found_before_rows_are_copied(
    server: PgPlayground, tmp_path: Path, ignored: str
) -> None:
    """The role has the settings of the session as its defaults, so they do not show that a pooler ignored them."""
    server.create("t", "id int PRIMARY KEY, v text")
    for key, value in SESSION.items():
        server.run(f"ALTER ROLE cdc IN DATABASE {DATABASE} SET {key} = '{value}'")
    ignored = f"ignore_startup_parameters = options, extra_float_digits{ignored}"
    with pooled(server, ignored) as pooler, pytest.raises(BehindPooler) as raised:
        PgSync(pooler, tmp_path, "t", conf=["table-name=t"]).run()
    assert "the log cannot be read" in str(raised.value)
    assert "the PostgreSQL server itself" in str(raised.value)
    assert server.run(LEFT).split() == ["0", "0"]
