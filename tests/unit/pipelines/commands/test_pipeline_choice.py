"""Flags of a sync action where a file may stand, and the file that does what they do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from tests.sync_flags import spec_of_action

MYSQL = [
    *("--warehouse", "/w", "--database", "ods", "--table-prefix", "x_", "--excluding-tables", "tmp.*"),
    *("--mysql-conf", "hostname=db", "--mysql-conf", "username=cdc", "--mysql-conf", "password=hush-hush"),
    *("--mysql-conf", "database-name=shop", "--table-conf", "bucket=4", "--on-truncate", "delete-all"),
    *("--table-mapping", "a=b", "--computed-column", "y=date_format(made, 'yyyy-MM')", "--until-caught-up"),
]
KAFKA = [
    *("--warehouse", "/w", "--database", "ods", "--table", "orders", "--primary-keys", "id,dt"),
    *("--kafka-conf", "properties.bootstrap.servers=k:9092", "--kafka-conf", "topic=a;b"),
    *("--kafka-conf", "value.format=canal-json", "--kafka-conf", "properties.sasl.jaas.config=user hush-hush;"),
]


def test_init_writes_a_file_equal_to_the_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PASSWORD", "hush-hush")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "mysql_sync_database", *MYSQL]) == 0
    text = Path("pipeline.yaml").read_text()
    assert "hush-hush" not in text
    written = yaml_file.read(text)
    meant = spec_of_action("mysql-sync-database", MYSQL)
    assert written.model_dump() | {"source": None} == meant.model_dump() | {"source": None}
    assert written.source.model_dump() | {"password": ""} == meant.source.model_dump() | {"password": ""}
    assert written.checkpoint == meant.checkpoint == "/w/_penstock/ods"
    assert main(["init", "mysql-sync-database", *MYSQL]) == 2  # it is there already


def test_init_writes_numbers_and_truth_values_of_flags_without_quotes(tmp_path: Path) -> None:
    flags = [*MYSQL, "--mysql-conf", "port=3307", "--parallelism", "2", "--merge-shards", "false", "--name", "7"]
    target = tmp_path / "p.yaml"
    assert main(["init", "mysql-sync-database", *flags, "--output", str(target)]) == 0
    written = yaml.safe_load(target.read_text())
    assert (written["source"]["port"], written["pipeline"]["parallelism"]) == (3307, 2)
    assert written["sink"]["naming"]["merge-shards"] is False
    # Options of tables, and names, are texts, as in the schema for editors.
    assert (written["sink"]["table-options"]["bucket"], written["pipeline"]["name"]) == ("4", "7")


@pytest.mark.parametrize("command", ["status", "dlq"])
def test_two_warehouses_of_a_named_pipeline_are_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--warehouse", str(tmp_path / "a"), "--catalog-conf", f"warehouse={tmp_path / 'b'}"]
    assert main([command, "shop", *(["list"] if command == "dlq" else []), *flags]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_secrets_of_kafka_become_references(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "k.yaml"
    assert main(["init", "kafka-sync-table", *KAFKA, "--output", str(target)]) == 0
    assert "hush-hush" not in target.read_text()
    assert "export KAFKA_SASL_JAAS_CONFIG=..." in capsys.readouterr().out
    written, meant = yaml_file.load(target), spec_of_action("kafka-sync-table", KAFKA)
    assert written.sink == meant.sink
    assert (written.pipeline, written.checkpoint) == (meant.pipeline, meant.checkpoint)


@pytest.mark.parametrize("command", ["check", "plan"])
def test_check_and_plan_accept_the_flags(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that is not there is what they find, not flags that they do not know."""
    flags = ["--warehouse", str(tmp_path), *MYSQL[2:], "--mysql-conf", "port=1", "--mysql-conf", "hostname=127.0.0.1"]
    assert main([command, "mysql-sync-database", *flags]) in {2, 3}
    captured = capsys.readouterr()
    assert "cannot be reached" in captured.out + captured.err
