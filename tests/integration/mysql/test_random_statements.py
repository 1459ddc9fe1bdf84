"""Random statements on MySQL and MariaDB, with runs that fail between them: the tables are equal to the server's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.ingest.database import reachability
from penstock.ingest.mysql.recorded_history import DefinitionStore
from penstock.ingest.mysql.server.login import GuardedConnection
from penstock.pipelines.api.verify import TableVerdict
from tests.integration.failing_calls import Countdown, lose_connection
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.random_statements import KILLS, SEEDS, Play, different, play_and_check


class MySqlPlay(Play):
    server: Playground
    schema = "play"
    kills = ((DefinitionStore, "add"), *KILLS)

    def pipeline(self, flags: Sequence[str]) -> Sync:
        more = ("--on-rename-column", "rename", "--checkpoint", f"{self.folder}/checkpoint")
        return Sync(self.server, self.folder, flags=(*flags, *more))

    def lose_connection(self, patch: pytest.MonkeyPatch) -> str:
        connection, lost = GuardedConnection, Countdown(self.draw.randint(1, 60), lose_connection)
        patch.setattr(reachability, "_PAUSE_S", 0.0)
        patch.setattr(connection, "query", lost.around(connection.query))
        return f"statement {lost.left}"

    def unequal(self) -> list[TableVerdict]:
        pipeline = self.current()
        assert isinstance(pipeline, Sync)
        return different(pipeline.verified(self.compared(pipeline.spec)))

    def create_statements(self, table: str, columns: str) -> Sequence[str]:
        return [f"CREATE TABLE {table} ({columns})"]

    def upsert(self, table: str, columns: Sequence[str], values: Sequence[str]) -> str:
        return f"REPLACE INTO {table} ({', '.join(['id', *columns])}) VALUES ({', '.join(values)})"

    def widening(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} MODIFY {column} BIGINT"

    def rewriting(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} MODIFY {column} TINYINT"

    def renaming(self, old: str, new: str) -> str:
        return self.draw.choice((f"RENAME TABLE {old} TO {new}", super().renaming(old, new)))


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_equal_to_the_server_after_random_statements(server: Playground, tmp_path: Path, seed: int) -> None:
    play_and_check(MySqlPlay(server, tmp_path, random.Random(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_have_the_rows_that_pass_rules_after_tables_are_read_again(
    server: Playground, tmp_path: Path, seed: int
) -> None:
    play_and_check(MySqlPlay(server, tmp_path, random.Random(seed), has_rules=True))
