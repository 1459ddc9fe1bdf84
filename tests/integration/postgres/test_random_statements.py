"""Random statements on PostgreSQL, with runs that fail between them: the tables are equal to the server's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.server.connection import PgConnection
from penstock.pipelines.api.verify import TableVerdict
from tests.integration.failing_calls import Countdown
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync
from tests.integration.random_statements import ACTIONS, SEEDS, Play, different, play_and_check

pytestmark = pytest.mark.postgres
CALLS = ("rows", "start_stream", "received")


class PostgresPlay(Play):
    server: PgPlayground
    schema = "public"
    # A column with a new name is another column to the log: its older rows keep their value under the old name.
    actions: ClassVar[dict[str, int]] = {name: weight for name, weight in ACTIONS.items() if name != "rename_column"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draw.random() < 0.3:  # the log has rows of tables that no plan has seen
            self.say(f"CREATE PUBLICATION {SLOT}_pub FOR ALL TABLES WITH (publish_via_partition_root = true)")

    @property
    def is_exact(self) -> bool:
        """Return whether rows are read as of a position: a change that comes twice would be seen in the targets."""
        return any("changelog" in word or word == "history" for word in self.target)

    def pipeline(self, flags: Sequence[str]) -> PgSync:
        return PgSync(self.server, self.folder, flags=flags)

    def lose_connection(self, patch: pytest.MonkeyPatch) -> str:
        name, lost = self.draw.choice(CALLS), Countdown(self.draw.randint(1, 60), _lose_connection)
        patch.setattr(PgConnection, name, lost.around(getattr(PgConnection, name)))
        return f"{name} {lost.left}"

    def unequal(self) -> list[TableVerdict]:
        pipeline = self.current()
        assert isinstance(pipeline, PgSync)
        return different(pipeline.verified(self.compared(pipeline.spec)).values())

    def create_statements(self, table: str, columns: str) -> Sequence[str]:
        # Rows as of a position need the old rows in the log.
        is_full = self.is_exact or self.draw.random() < 0.5
        full = [f"ALTER TABLE {table} REPLICA IDENTITY FULL"] if is_full else []
        return [f"CREATE TABLE {table} ({columns})", f"ALTER TABLE {table} OWNER TO cdc", *full]

    def upsert(self, table: str, columns: Sequence[str], values: Sequence[str]) -> str:
        new = ", ".join(f"{column} = excluded.{column}" for column in columns)
        into = f"INSERT INTO {table} ({', '.join(['id', *columns])}) VALUES ({', '.join(values)})"
        return f"{into} ON CONFLICT (id) DO {f'UPDATE SET {new}' if new else 'NOTHING'}"

    def rewriting(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} ALTER COLUMN {column} TYPE int USING {column} % 7"

    def widening(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} ALTER COLUMN {column} TYPE BIGINT"


def _lose_connection() -> None:
    raise ConnectionLost("the connection to the PostgreSQL server was lost", retryable=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_equal_to_the_server_after_random_statements(
    server: PgPlayground, tmp_path: Path, seed: int
) -> None:
    play_and_check(PostgresPlay(server, tmp_path, random.Random(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_have_the_rows_that_pass_rules_after_tables_are_read_again(
    server: PgPlayground, tmp_path: Path, seed: int
) -> None:
    play_and_check(PostgresPlay(server, tmp_path, random.Random(seed), has_rules=True))
