"""The sync actions of Paimon, by their names and flags."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.pipelines.api.run import run_command
from penstock.pipelines.commands.arguments import Given, parse
from penstock.pipelines.commands.target import yes
from penstock.pipelines.config.flags import (
    KAFKA_DATABASE,
    KAFKA_TABLE,
    MYSQL_DATABASE,
    MYSQL_TABLE,
    POSTGRES_DATABASE,
    POSTGRES_TABLE,
    pairs,
)

_ACTIONS = {
    "mysql-sync-table": (MYSQL_TABLE, "Write MySQL or MariaDB tables to one table."),
    "mysql-sync-database": (MYSQL_DATABASE, "Write a MySQL or MariaDB database to one table per source table."),
    "postgres-sync-table": (POSTGRES_TABLE, "Write PostgreSQL tables to one table."),
    "postgres-sync-database": (POSTGRES_DATABASE, "Write a PostgreSQL database to one table per source table."),
    "kafka-sync-table": (KAFKA_TABLE, "Write Kafka topics to one table."),
    "kafka-sync-database": (KAFKA_DATABASE, "Write Kafka topics to one table per source table."),
}


def command(name: str, words: list[str]) -> int:
    flags, description = _ACTIONS[name]
    given = parse(name, flags, words, description)
    _check_mode(given)
    from penstock.pipelines.config.load import parsed
    from penstock.pipelines.config.sync_pipeline import action_values

    spec = parsed(action_values(name, given))
    if "from" in given:
        from penstock.pipelines.commands.run import started_at

        spec = started_at(spec, given["from"][-1])
    master = given.get("master", [None])[-1]
    return run_command(spec, master=master, settings=pairs(given.get("spark-conf", ())), as_json=yes(given, "json"))


def _check_mode(given: Given) -> None:
    mode = given.get("mode", ["combined"])[-1].lower()
    if mode not in {"divided", "combined"}:
        raise ConfigError(f"--mode cannot be {mode!r}", hint="divided or combined; both have the same effect")
